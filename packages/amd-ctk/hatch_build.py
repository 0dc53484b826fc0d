"""Write down what was built: `amd-ctk version` shows the commit and its date."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD_FILE = "src/amd_ctk/build.json"


class WriteBuildFile(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own examples leave it open
    """Makes BUILD_FILE from git; an sdist, which has no git, brings the one it was made with."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Write BUILD_FILE if this is a checkout with a commit; who builds from an sdist may have no git."""
        if shutil.which("git") is None:
            return
        answer = subprocess.run(
            # The commit's date and not today's: two builds of one commit are the same bytes.
            ["git", "-C", self.root, "log", "-1", "--format=%h %cd", "--abbrev=7", "--date=format:%Y-%m-%dT%H:%M:%S%z"],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode == 0:
            commit, date = answer.stdout.split()
            document = json.dumps({"commit": commit, "date": date}) + "\n"
            pathlib.Path(self.root, BUILD_FILE).write_text(document, encoding="utf-8")
