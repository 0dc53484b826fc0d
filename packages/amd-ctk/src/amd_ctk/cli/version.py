"""amd-ctk version."""

from __future__ import annotations

from typing import Annotated

import typer


def version(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Show the version."""
    import json

    facts = read_version()
    if as_json:
        print(json.dumps(facts))
    else:
        print(f"Version: v{facts['version']}\nBuild Date: {facts['date']}\nGitCommit: {facts['commit']}")


def print_version(asked: bool) -> None:
    """Print the version on one line and exit, where --version is given."""
    if asked:
        print(f"amd-ctk version {read_version()['version']}")
        raise typer.Exit


def read_version() -> dict[str, str]:
    """Return `version`, and `date` and `commit` of the build, "unknown" where it was not made from git."""
    import json
    from importlib.metadata import version as installed_version
    from importlib.resources import files

    build = files("amd_ctk").joinpath("build.json")
    known = json.loads(build.read_text(encoding="utf-8")) if build.is_file() else {}
    return {"version": installed_version("amd-ctk"), "date": "unknown", "commit": "unknown", **known}
