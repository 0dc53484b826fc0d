"""Read the pages about Ray, JupyterHub and HTCondor whose commands tests run."""

from __future__ import annotations

import re

from support.documentation import read_page

PAGE = "docs/how-to/clusters.md"
IDLE_PAGE = "docs/how-to/idle-gpus.md"


def blocks_of(heading: str, page: str = PAGE) -> list[str]:
    """Return the contents of a section's code blocks, in order."""
    section = read_page(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def commands_in(block: str) -> list[str]:
    """Return the commands in a block."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
