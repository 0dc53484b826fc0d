"""amd-ctk doctor: why a host, or a container on it, has no GPU."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from amd_ctk.cli import offers
from amd_ctk.doctor.facts.all import Facts, read_facts
from amd_ctk.doctor.facts.users import find_user
from amd_ctk.doctor.run import Result, format_json, format_results, is_healthy, require_engine, run_checks
from amd_ctk.wrapped import print_wrapped
from amdgpu_discovery.command_line.context import PrintJson, announce, host_of
from amdgpu_discovery.command_line.plain_help import examples
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.repairs import Repair


@examples("sudo amd-ctk doctor", "sudo amd-ctk doctor --container web", "amd-ctk doctor --only=driver,kfd -v")
def doctor(
    context: typer.Context,
    *,
    container: Annotated[
        str,
        typer.Option(metavar="NAME|ID|PID", help="Check this container from inside.", autocompletion=offers.containers),
    ] = "",
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help="Skip all engines but this one: docker, podman, containerd or slurm.")
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="ID,..", help="Run only these checks.", autocompletion=offers.checks)
    ] = "",
    skip: Annotated[str, typer.Option(metavar="ID,..", help="Skip these checks.", autocompletion=offers.checks)] = "",
    fix: Annotated[bool, typer.Option("--fix", help="Show safe fixes, and apply those you agree to.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --fix changes anything.")] = False,
    bundle: Annotated[str, typer.Option(metavar="FILE.tar.xz", help="Write a file to send to the maintainers.")] = "",
    with_serials: Annotated[bool, typer.Option("--with-serials", help="Keep unique ids in the bundle.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Prove what a container for each free GPU can use.")] = False,
    replay: Annotated[str, typer.Option(metavar="FILE.tar.xz", help="Check the host of this bundle instead.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Explain why each check matters.")] = False,
    as_json: PrintJson = False,
) -> None:
    """Find out why a container has no GPU. It changes nothing without --fix.

    Exits with 1 if something is bad, and with 0 if all is well or could not be checked.
    """
    require_engine(engine)
    if prove:
        _prove(host_of(context), engine)
        return
    chosen: Any = {"only": _split(only), "skip": _split(skip), "engine": engine}
    if replay:
        from amd_ctk.doctor.bundle.read import replay_bundle

        results = replay_bundle(replay, **chosen)
    else:
        host = host_of(context)
        facts, results = _examine(host, container, **chosen)
        if fix and _repair(host, facts, results, ask=not yes):
            facts, results = _examine(host, container, **chosen)
        if bundle:
            from amd_ctk.doctor.bundle.write import write_bundle

            write_bundle(host, facts, results, bundle, with_serials=with_serials)
            print(f"Wrote {bundle}; look at it before you send it", file=sys.stderr)
    if as_json:
        print(format_json(results))
    else:
        print_wrapped(format_results(results, verbose=verbose))
    if not is_healthy(results):
        raise typer.Exit(1)


def _examine(host: Host, container: str, *, engine: str, **chosen: list[str]) -> tuple[Facts, list[Result]]:
    facts = read_facts(host, container=container, engine=engine, user=find_user())
    return facts, run_checks(facts, engine=engine, **chosen)


def _repair(host: Host, facts: Facts, results: list[Result], *, ask: bool) -> bool:
    """Apply the repairs that the user agrees to; return whether anything was changed."""
    from amd_ctk.doctor.repairs import find_repairs

    repairs = find_repairs(host, facts, results)
    if not repairs:
        print("--fix has nothing to change", file=sys.stderr)
        return False
    announce(host)
    applied = [_apply(repair, ask=ask) for repair in repairs]
    return any(applied)


def _apply(repair: Repair, *, ask: bool) -> bool:
    print(f"{repair.check}: {repair.words}", file=sys.stderr)
    if repair.difference:
        print(repair.difference, file=sys.stderr)
    if ask and not _confirm():
        return False
    try:
        repair.apply()
    except ToolkitError as error:
        print(f"Not changed: {error}", file=sys.stderr)
        return False
    print("Done", file=sys.stderr)
    return True


def _confirm() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        print("Not changed: add --yes", file=sys.stderr)
        return False
    return typer.confirm("Change this?", default=False, err=True)


def _prove(host: Host, engine: str) -> None:
    """Print a table of GPUs and engines, and write it to a file; exit with 1 unless all is proved."""
    from amd_ctk.gpus.listing import find_gpu_states
    from amd_ctk.pages import find_page
    from amd_ctk.prove.engines import find_engines
    from amd_ctk.prove.prove import PROOF, format_proofs, is_proved, prove, require_provable, write_proof

    facts = read_facts(host, engine=engine)
    engines = [found for found in find_engines(facts, host) if engine in ("", found.name)]
    require_provable(facts, engines)
    proofs = list(prove(facts, find_gpu_states(host)[0], engines))
    print(format_proofs(proofs))
    write_proof(host, facts, engines, proofs)
    page = find_page("maintain/hardware.md")
    print(f"Wrote {PROOF}, without serial numbers; {page} says where to send it", file=sys.stderr)
    if not is_proved(proofs):
        raise typer.Exit(1)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]
