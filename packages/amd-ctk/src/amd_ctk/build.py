"""The version of amd-ctk, and the commit and date of its build."""

from __future__ import annotations

import amd_ctk
from amdgpu_discovery.untrusted import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

UNKNOWN = {"date": "unknown", "commit": "unknown"}


def print_build(_: Host | None = None) -> None:
    """Print the version, date and commit of the build in the original toolkit's format."""
    facts = read_build()
    print(f"Version: v{facts['version']}\nBuild Date: {facts['date']}\nGitCommit: {facts['commit']}")


def print_version() -> None:
    """Print the version on one line, as --version does."""
    print(f"amd-ctk version {read_build()['version']}", flush=True)


def read_build() -> dict[str, str]:
    """Return `version`, and `date` and `commit` of the build; these two are "unknown" if it was not built from git."""
    try:
        with open(f"{amd_ctk.__file__.rpartition('/')[0]}/build.json", "rb") as file:
            known = plain_json.loads(file.read())
    except FileNotFoundError:
        known = {}
    return {"version": known.get("version") or amd_ctk.__version__, **UNKNOWN, **known}
