"""amd-ctk version."""

from __future__ import annotations

from typing import Annotated

import typer

import amd_ctk


def version(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Show the version."""
    import json

    facts = read_version()
    if as_json:
        print(json.dumps(facts))
    else:
        print(f"Version: v{facts['version']}\nBuild Date: {facts['date']}\nGitCommit: {facts['commit']}")


def print_version() -> None:
    """Print the version on one line, as --version does."""
    print(f"amd-ctk version {read_version()['version']}")


def read_version() -> dict[str, str]:
    """Return `version`, and `date` and `commit` of the build, "unknown" where it was not made from git."""
    import json
    from pathlib import Path

    build = Path(amd_ctk.__file__).with_name("build.json")
    known = json.loads(build.read_text(encoding="utf-8")) if build.is_file() else {}
    return {"version": known.get("version") or amd_ctk.__version__, "date": "unknown", "commit": "unknown", **known}
