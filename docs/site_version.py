"""Hooks of mkdocs that give each page the version, the note of independence and a rank in searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VERSION = Path(__file__).parents[1] / "VERSION"
INDEPENDENCE = (
    "This is an independent implementation. It is not made, supported or endorsed by AMD. AMD, ROCm and Instinct are "
    "trademarks of Advanced Micro Devices, Inc."
)
# Readers search for a task or for a message. Pages about design and maintenance rank last.
FIRST = ("how-to/troubleshoot.md", "how-to/doctor.md")
SECOND = ("how-to/", "tutorial/", "reference/messages.md", "reference/no-gpu-causes.md")
LAST = ("decisions/", "maintain/", "reference/python/", "reference/engines.md")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Set a page's rank in searches (Material's `search.boost`)."""
    path = page.file.src_uri
    boosts = ((FIRST, 12), (SECOND, 4), (LAST, 0.2))
    page.meta["search"] = {"boost": next((boost for places, boost in boosts if path.startswith(places)), 1)}
    return markdown


def on_config(config: Any) -> Any:
    """Fill in the footer. Without a forge, hide the edit button, because pages cannot be edited anywhere."""
    version = VERSION.read_text(encoding="utf-8").strip()
    releases = f"Version {version}. Each release has its own documentation: in <code>docs/</code> of its tag."
    config.copyright = f"{releases}<br>{INDEPENDENCE}"
    if not config.repo_url:
        config.edit_uri = ""
    return config
