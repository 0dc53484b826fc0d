"""Write down what was built: `amd-ctk version` shows the commit and its date."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where it is in each kind of archive. An editable installation has none: its sources are not those of one commit.
PATH_BY_TARGET = {"wheel": "amd_ctk/build.json", "sdist": "src/amd_ctk/build.json"}


class WriteBuildFile(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own examples leave it open
    """Adds build.json, made from git, to archives; no file is written below the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file if this is a checkout with a commit; a source distribution has brought its own."""
        if version == "editable" or pathlib.Path(self.root, "PKG-INFO").exists():
            return
        build = _read_build(self.root)
        if build:
            self._directory = tempfile.TemporaryDirectory()
            file = pathlib.Path(self._directory.name, "build.json")
            # To ask importlib.metadata for the version takes a fifth of a command's time.
            build["version"] = self.metadata.version
            file.write_text(json.dumps(build) + "\n", encoding="utf-8")
            build_data["force_include"][str(file)] = PATH_BY_TARGET[self.target_name]


def _read_build(root: str) -> dict[str, str]:
    """Return the commit of a checkout and its date, nothing where git knows none."""
    if shutil.which("git") is None or not _is_checked_out(root):
        return {}
    answer = subprocess.run(
        # The commit's date and not today's: two builds of one commit are the same bytes.
        ["git", "-C", root, "log", "-1", "--format=%h %cd", "--abbrev=7", "--date=format:%Y-%m-%dT%H:%M:%S%z"],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        return {}
    commit, date = answer.stdout.split()
    return {"commit": commit, "date": date}


def _is_checked_out(root: str) -> bool:
    """Return whether these sources are git's; unpacked below another checkout, they would get a commit of that one."""
    words = ["git", "-C", root, "ls-files", "--error-unmatch", "pyproject.toml"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
