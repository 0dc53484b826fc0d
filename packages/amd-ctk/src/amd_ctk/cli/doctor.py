"""amd-ctk doctor: why a host, or a container on it, has no GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from amd_ctk.cli.context import host_of


def doctor(
    context: typer.Context,
    *,
    container: Annotated[str, typer.Option(metavar="NAME|ID|PID", help="Look at this container from inside.")] = "",
    only: Annotated[str, typer.Option(metavar="ID,..", help="Run these checks only.")] = "",
    skip: Annotated[str, typer.Option(metavar="ID,..", help="Leave these checks out.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say why each check matters.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Find out why containers have no GPU, and say what to do; nothing is changed.

    The exit code is 1 where something is bad, 0 where all is well or could not be checked.
    """
    from amd_ctk.doctor.facts.all import read_facts
    from amd_ctk.doctor.run import run_checks
    from amd_ctk.doctor.text import format_json, format_results, is_healthy

    results = run_checks(read_facts(host_of(context), container=container), only=_split(only), skip=_split(skip))
    print(format_json(results) if as_json else format_results(results, verbose=verbose))
    if not is_healthy(results):
        raise typer.Exit(1)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]
