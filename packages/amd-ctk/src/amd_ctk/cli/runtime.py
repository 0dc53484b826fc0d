"""amd-ctk runtime: the configuration of container engines."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from amd_ctk.cli.context import announce, host_of
from amd_ctk.cli.edited import ask_for_restart, print_difference, print_preview, print_written, up_to_date
from amd_ctk.cli.group import command_group
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.apply import Target
    from amd_ctk.configuration.edit import Edit, Edited
    from amd_ctk.configuration.ledger import Record
    from amd_ctk.configuration.request import Request
    from amd_ctk.engines.engine import Engine
    from amdgpu_discovery.host import Host

app = command_group("runtime related commands for AMD Container Toolkit")


class UnsupportedRequest(ToolkitError):
    """Options that contradict each other, or an engine that is unknown."""


@app.command()
def configure(
    context: typer.Context,
    *,
    runtime: Annotated[str, typer.Option("--runtime", help="Engine: docker, podman, containerd or crio.")] = "docker",
    config_path: Annotated[
        str | None, typer.Option("--config-path", help="Configuration file, if not the engine's usual one.")
    ] = None,
    runtime_name: Annotated[str, typer.Option("--runtime-name", help="What the engine calls the runtime.")] = "amd",
    runtime_path: Annotated[
        str, typer.Option("--runtime-path", help="Where amd-container-runtime is, if not where it is looked for.")
    ] = "",
    cdi: Annotated[
        bool | None, typer.Option("--cdi/--no-cdi", help="Turn CDI on even if it is off / leave CDI alone.")
    ] = None,
    set_as_default: Annotated[
        bool, typer.Option("--set-as-default", "--amd-set-as-default", help="Make it the default runtime.")
    ] = False,
    unset_as_default: Annotated[
        bool,
        typer.Option("--unset-as-default", "--unset-amd-as-default", help="Stop using it as the default runtime."),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove everything amd-ctk added, and nothing else.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="With --remove: from the files of every engine.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the file from before the last change.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new file and change nothing.")] = False,
    show_diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Have the engine, where installed, check the file first.")
    ] = True,
    restart: Annotated[bool, typer.Option("--restart", help="Restart the engine afterwards.")] = False,
) -> None:
    """Configure a container engine to use the AMD Container Runtime, or remove it."""
    from amd_ctk.configuration.apply import find_target
    from amd_ctk.configuration.request import Request

    request = Request(
        runtime_name=runtime_name, runtime_path=runtime_path, cdi=cdi, set_as_default=set_as_default,
        unset_as_default=unset_as_default, remove=remove, undo=undo, dry_run=dry_run, show_diff=show_diff,
        validate=validate, restart=restart,
    )  # fmt: skip
    host = host_of(context)
    engine = _find_engine(runtime)
    _refuse_contradictions(request, host)
    if every and (not remove or config_path is not None):
        raise UnsupportedRequest("all flag goes with remove flag, and with no configuration file")
    if config_path == "":
        _print_fresh(engine, request, host)
        return
    if not dry_run:
        announce(host)
    if every:
        _remove_everywhere(request, host)
    else:
        _change(find_target(host, engine, config_path or ""), request)


def _find_engine(name: str) -> Engine:
    from amd_ctk.engines.known import ENGINES

    if name not in ENGINES:
        raise UnsupportedRequest(f"unsupported runtime engine: {name}", hint=f"there are {', '.join(ENGINES)}")
    return ENGINES[name]


def _refuse_contradictions(request: Request, host: Host) -> None:
    default = request.set_as_default or request.unset_as_default
    if request.set_as_default and request.unset_as_default:
        raise UnsupportedRequest("both set and unset as default cannot be used at the same time")
    if request.remove and default:
        raise UnsupportedRequest("remove flag cannot be used along with set-as-default flag")
    if request.undo and (request.remove or default):
        raise UnsupportedRequest("undo flag cannot be used along with remove or set-as-default flag")
    if request.restart and not host.is_this_machine:
        raise UnsupportedRequest(f"no engine serves the simulated host {host.root}", hint="leave --restart away")


def _remove_everywhere(request: Request, host: Host) -> None:
    """Remove the runtime from the usual file of every engine; one that fails does not keep the others from it."""
    from amd_ctk.configuration.apply import find_target
    from amd_ctk.configuration.ledger import LedgerInUse
    from amd_ctk.engines.known import ENGINES

    failures: list[ToolkitError] = []
    for engine in ENGINES.values():
        try:
            _change(find_target(host, engine, ""), request)
        except LedgerInUse:
            # It would keep the others waiting just as long.
            raise
        except ToolkitError as error:
            print(error, file=sys.stderr, flush=True)
            failures.append(error)
    if failures:
        raise typer.Exit(failures[-1].exit_code)


def _change(target: Target, request: Request) -> None:
    """Edit the file, or show what that would do."""
    from amd_ctk.configuration.apply import apply, preview

    def prepare_change(record: Record) -> Edited:
        return _prepare(target, request, record)

    if request.dry_run:
        edited = preview(target, prepare_change, os.environ)
        print_preview(edited, show_diff=request.show_diff, unchanged=lambda: _report_nothing(edited, request))
        return
    if os.path.exists(target.file.path):
        print(f"Loading configuration from: {target.file.shown}", flush=True)
    edited = apply(target, prepare_change, os.environ)
    if request.show_diff:
        print_difference(edited)
    _report(target, edited, request)
    if request.adds_runtime:
        _pin_low_level_runtime(target.host)


def _prepare(target: Target, request: Request, record: Record) -> Edited:
    """Return the change that was asked for."""
    from amd_ctk.configuration.apply import prepare
    from amd_ctk.configuration.edit import prepare_undo

    if request.undo:
        return prepare_undo(target.file, record)
    edit, program = _plan(target.engine, request, target.host)
    return prepare(target, edit, record, validate=request.validate, adds=request.adds_runtime, program=program)


def _plan(engine: Engine, request: Request, host: Host) -> tuple[Edit, str]:
    from amd_ctk.configuration.request import plan_edit

    search_path = os.environ.get("PATH", "")
    return plan_edit(engine, request, ourselves=sys.argv[0], search_path=search_path, must_exist=host.is_this_machine)


def _print_fresh(engine: Engine, request: Request, host: Host) -> None:
    """Print the configuration that a host without one would get."""
    from amd_ctk.configuration.changes import Changes

    edit, _ = _plan(engine, request, host)
    print(edit(engine.read(engine.new_text), Changes())[0].text, end="")


def _pin_low_level_runtime(host: Host) -> None:
    """Hold on to crun where there is no runc, because one that is installed later could not stop crun's containers."""
    from amd_ctk.low_level import USUAL_DIRECTORIES, find_only_crun, pin

    crun = find_only_crun([*os.environ.get("PATH", "").split(":"), *USUAL_DIRECTORIES])
    if crun and (os.geteuid() == 0 or not host.is_this_machine) and pin(host, crun):
        print(f"low-level-runtime is {crun} from now on, because there is no runc", file=sys.stderr)


def _report(target: Target, edited: Edited, request: Request) -> None:
    """Say what was done, restart the engine if that was asked for, and say how if not."""
    engine = target.engine
    if not edited.changed:
        _report_nothing(edited, request)
    else:
        if request.unset_as_default:
            print(f"Removed {request.runtime_name} as the default runtime")
        print_written(edited)
    if request.adds_runtime and request.cdi is None and _cdi_is_off(engine, edited.new or ""):
        print(f"CDI is turned off in {edited.file.shown}; --cdi turns it on", file=sys.stderr)
    if engine.service and request.restart:
        from amd_ctk.configuration.restart import restart, restart_command

        restart(restart_command(target.host, engine.service), engine.service)
        print(f"Restarted {engine.service} daemon")
    else:
        ask_for_restart(edited, engine)


def _cdi_is_off(engine: Engine, text: str) -> bool:
    document = engine.read(text)
    switch = engine.find_layout(document).cdi
    return switch is not None and document.get(switch) is False


def _report_nothing(edited: Edited, request: Request) -> None:
    if request.remove:
        print(f"{edited.file.shown} contains nothing added by amd-ctk", file=sys.stderr)
    elif request.unset_as_default:
        print(f"{request.runtime_name} is not the default runtime in {edited.file.shown}", file=sys.stderr)
    else:
        print(up_to_date(edited))
