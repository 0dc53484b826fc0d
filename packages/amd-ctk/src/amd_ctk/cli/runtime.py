"""amd-ctk runtime: the configuration of container engines."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from amd_ctk.cli.context import host_of
from amd_ctk.cli.group import command_group
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.config_file import ConfigFile
    from amd_ctk.configuration.edit import Edited
    from amd_ctk.configuration.ledger import Ledger
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
        typer.Option("--unset-as-default", "--unset-amd-as-default", help="Make it the default runtime no longer."),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out all that is ours, and nothing else.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Bring back the file from before the last change.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new file and change nothing.")] = False,
    show_diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Have the engine, where installed, check the file first.")
    ] = True,
    restart: Annotated[bool, typer.Option("--restart", help="Restart the engine afterwards.")] = False,
) -> None:
    """Configure a container engine to use the AMD Container Runtime, or take that out again."""
    from amd_ctk.configuration.request import Request

    request = Request(
        runtime_name=runtime_name, runtime_path=runtime_path, cdi=cdi, set_as_default=set_as_default,
        unset_as_default=unset_as_default, remove=remove, undo=undo, dry_run=dry_run, show_diff=show_diff,
        validate=validate, restart=restart,
    )  # fmt: skip
    host = host_of(context)
    engine = _find_engine(runtime)
    _refuse_contradictions(request, host)
    if config_path == "":
        _print_fresh(engine, request)
        return
    _change(*_find_file(engine, host, config_path), request, host)


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


def _find_file(engine: Engine, host: Host, config_path: str | None) -> tuple[Engine, ConfigFile]:
    """Return the file to edit, and the engine as that file has it."""
    from amd_ctk.configuration.config_file import ConfigFile

    if config_path:
        return engine, ConfigFile(path=os.path.abspath(config_path), shown=os.path.abspath(config_path))
    engine = engine.on_host(host) if engine.on_host else engine
    return engine, ConfigFile(path=host.path(engine.config_path), shown=engine.config_path)


def _change(engine: Engine, file: ConfigFile, request: Request, host: Host) -> None:
    """Edit the file, or show what that would do."""
    from amd_ctk.configuration.diff import format_diff
    from amd_ctk.configuration.ledger import Ledger, ledger_directory, open_ledger

    if request.dry_run:
        edited = _prepare(engine, file, request, Ledger(ledger_directory(host, os.environ)))
        print(format_diff(edited) if request.show_diff else edited.new or "", end="")
        return
    if os.path.exists(file.path):
        print(f"Loading configuration from: {file.shown}", flush=True)
    with open_ledger(host, os.environ) as ledger:
        edited = _prepare(engine, file, request, ledger)
        if edited.changed:
            _save(edited, ledger)
    if request.show_diff:
        print(format_diff(edited), end="")
    _report(engine, edited, request, host)
    if request.adds_runtime:
        _pin_low_level_runtime(host)


def _pin_low_level_runtime(host: Host) -> None:
    """Hold on to crun where there is no runc, because one that is installed later could not stop crun's containers."""
    from amd_ctk.low_level import USUAL_DIRECTORIES, find_only_crun, pin

    crun = find_only_crun([*os.environ.get("PATH", "").split(":"), *USUAL_DIRECTORIES])
    if crun and (os.geteuid() == 0 or not host.is_this_machine) and pin(host, crun):
        print(f"low-level-runtime is {crun} from now on, because there is no runc", file=sys.stderr)


def _prepare(engine: Engine, file: ConfigFile, request: Request, ledger: Ledger) -> Edited:
    """Return the edit that was asked for, checked by the engine."""
    from amd_ctk.configuration.checker import check
    from amd_ctk.configuration.edit import prepare_edit, prepare_undo
    from amd_ctk.configuration.request import plan_edit

    record = ledger.get(file.shown)
    if request.undo:
        return prepare_undo(file, record)
    edit, program = plan_edit(engine, request, ourselves=sys.argv[0], search_path=os.environ.get("PATH", ""))
    edited = prepare_edit(engine, file, edit, record)
    if edited.changed and edited.new is not None and request.validate:
        check(engine, edited.new, file.shown, program=program)
    return edited


def _save(edited: Edited, ledger: Ledger) -> None:
    from amd_ctk.configuration.edit import save

    save(edited, ledger)


def _print_fresh(engine: Engine, request: Request) -> None:
    """Print the configuration that a host without one would get."""
    from amd_ctk.configuration.changes import Changes
    from amd_ctk.configuration.request import plan_edit

    edit, _ = plan_edit(engine, request, ourselves=sys.argv[0], search_path=os.environ.get("PATH", ""))
    print(edit(engine.read(engine.new_text), Changes())[0].text, end="")


def _report(engine: Engine, edited: Edited, request: Request, host: Host) -> None:
    """Say what was done, restart the engine if that was asked for, and say how if not."""
    if not edited.changed:
        _report_nothing(edited, request)
    else:
        if request.unset_as_default:
            print(f"Removed {request.runtime_name} as the default runtime")
        print(f"Updated the config file: {edited.file.shown}", flush=True)
    if request.adds_runtime and request.cdi is None and _cdi_is_off(engine, edited.new or ""):
        print(f"CDI is turned off in {edited.file.shown}; --cdi turns it on", file=sys.stderr)
    if engine.service and request.restart:
        from amd_ctk.configuration.restart import restart, restart_command

        restart(restart_command(host, engine.service), engine.service)
        print(f"Restarted {engine.service} daemon")
    elif engine.service and edited.changed:
        print(f"Please restart {engine.service} daemon")


def _cdi_is_off(engine: Engine, text: str) -> bool:
    document = engine.read(text)
    switch = engine.find_layout(document).cdi
    return switch is not None and document.get(switch) is False


def _report_nothing(edited: Edited, request: Request) -> None:
    if request.remove:
        print(f"there is nothing of ours in {edited.file.shown}", file=sys.stderr)
    elif request.unset_as_default:
        print(f"{request.runtime_name} is not the default runtime in {edited.file.shown}", file=sys.stderr)
    else:
        print(f"The config file is up to date: {edited.file.shown}")
