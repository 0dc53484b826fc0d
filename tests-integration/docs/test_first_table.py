"""The commands of README's table of what sets the toolkit apart work on a host on which nothing was set up."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.documentation import PATH, read_page

TABLE = read_page("README.md").partition("## What sets it apart")[2].partition("\n\nIt also")[0]
ROWS = [re.findall(r"`((?:sudo )?amd-ctk [^`]+)`", line) for line in TABLE.splitlines() if line.startswith("| ")]
# These start a container, a job or a download, or ask the engines of this machine; tests-integration/e2e and story do.
NOT_HERE = ("docker run", "amd-ctk run", "image check", "amd-ctk doctor")
COMMANDS = [
    " && ".join(shown) for row in ROWS if (shown := [each for each in row if not any(map(each.__contains__, NOT_HERE))])
]


def test_most_rows_have_a_command_that_is_run_here() -> None:
    assert COMMANDS == [
        "sudo amd-ctk users allow everyone --gpus=2",
        "amd-ctk top",
        "amd-ctk status --usage",
        "sudo amd-ctk report",
        "sudo amd-ctk gpu-tracker enable && sudo amd-ctk gpu-tracker 0 exclusive",
    ]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_first_table_works_on_a_fresh_host(line: str, tmp_path: Path) -> None:
    host = build_host(tmp_path / "machine", "mi300x-8")
    environment = {"PATH": PATH, "HOME": os.fspath(tmp_path), "LANG": "C.UTF-8", "AMD_CTK_HOST_ROOT": host.root}

    for command in line.split(" && "):
        words = shlex.split(command.removeprefix("sudo "))
        answer = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

        assert (answer.returncode, "Error" in answer.stderr) == (0, False), answer.stderr
        assert answer.stdout
