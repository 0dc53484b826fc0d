"""Which version this is, and from which commit it was built."""

from __future__ import annotations

import amd_ctk
from amdgpu_discovery import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

UNKNOWN = {"date": "unknown", "commit": "unknown"}


def print_build(_: Host | None = None) -> None:
    """Print the version and what it was built from, as the original does."""
    facts = read_build()
    print(f"Version: v{facts['version']}\nBuild Date: {facts['date']}\nGitCommit: {facts['commit']}")


def print_version() -> None:
    """Print the version on one line, as --version does."""
    print(f"amd-ctk version {read_build()['version']}", flush=True)


def read_build() -> dict[str, str]:
    """Return `version`, and `date` and `commit` of the build, "unknown" where it was not made from git."""
    try:
        with open(f"{amd_ctk.__file__.rpartition('/')[0]}/build.json", "rb") as file:
            known = plain_json.loads(file.read())
    except FileNotFoundError:
        known = {}
    return {"version": known.get("version") or amd_ctk.__version__, **UNKNOWN, **known}
