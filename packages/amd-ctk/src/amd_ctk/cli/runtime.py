"""amd-ctk runtime: the configuration of container engines."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Annotated

import typer

from amd_ctk.cli import offers
from amd_ctk.configuration.apply import Target, apply, find_target, prepare, preview, restart, restart_command
from amd_ctk.configuration.edit import Edit, EngineEdit, prepare_undo
from amd_ctk.configuration.engine import Engine, ask_for_restart
from amd_ctk.configuration.ledger import Changes, LedgerInUse, Record
from amd_ctk.configuration.plan import ConfigureOptions, plan_edit
from amd_ctk.configuration.runtime_program import LOW_LEVEL_DIRECTORIES, find_only_crun, pin
from amdgpu_discovery.command_line.context import announce, command_group, host_of
from amdgpu_discovery.command_line.edited import (
    print_difference,
    print_preview,
    print_written,
    up_to_date,
)
from amdgpu_discovery.command_line.plain_help import examples
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

# Docker has no file for --images; its users pull from the proxy's address.
IMAGE_PROXY_ENGINES = ("podman", "containerd")

GENERATED = "DO NOT EDIT"

app = command_group("runtime related commands for AMD Container Toolkit")


class UnsupportedOptions(ToolkitError):
    """Options that contradict each other, or an engine that is unknown."""


@app.command()
@examples(
    "sudo amd-ctk runtime configure",
    "sudo amd-ctk runtime configure --runtime=podman --dry-run --diff",
    "sudo amd-ctk runtime configure --remove",
    "sudo amd-ctk runtime configure --runtime=podman --images",
)
def configure(
    context: typer.Context,
    *,
    runtime: Annotated[
        str,
        typer.Option(
            metavar="ENGINE", help="Engine: docker, podman, containerd, crio or slurm.", autocompletion=offers.engines
        ),
    ] = "docker",
    config_path: Annotated[
        str | None, typer.Option(metavar="FILE", help="Configuration file. Default: the engine's own.")
    ] = None,
    runtime_name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the runtime in the engine's configuration.")
    ] = "amd",
    runtime_path: Annotated[
        str, typer.Option(metavar="FILE", help="Path of amd-container-runtime. Default: found by itself.")
    ] = "",
    cdi: Annotated[
        bool | None,
        typer.Option("--cdi/--no-cdi", help="Turn CDI on / do not change CDI. Default: on unless it is turned off."),
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
    every: Annotated[bool, typer.Option("--all", help="With --remove: edit the files of all engines.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the file from before the last change.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new file, without writing it.")] = False,
    show_diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Let an installed engine check the file first.")
    ] = True,
    restart: Annotated[bool, typer.Option("--restart", help="Restart the engine afterwards.")] = False,
    images: Annotated[
        bool,
        typer.Option("--images", help="Pull through the proxy that finds images for the GPUs; podman, containerd."),
    ] = False,
) -> None:
    """Configure an engine for the runtime, or remove it."""
    options = ConfigureOptions(
        runtime_name=runtime_name, runtime_path=runtime_path, cdi=cdi, set_as_default=set_as_default,
        unset_as_default=unset_as_default, remove=remove, undo=undo, dry_run=dry_run, show_diff=show_diff,
        validate=validate, restart=restart,
    )  # fmt: skip
    host = host_of(context)
    engine = _find_engine(runtime)
    _refuse_contradictions(options, host)
    if every and (not remove or config_path is not None):
        raise UnsupportedOptions("all flag can only be used along with remove flag, and without config-path flag")
    if images and (set_as_default or unset_as_default or restart or config_path is not None):
        raise UnsupportedOptions("images flag can only be used along with remove, undo, dry-run and diff flags")
    if config_path == "":
        # What a host without a file would get.
        print(_plan(engine, options, host)[0](engine.read(engine.new_text), Changes())[0].text, end="")
        return
    if not dry_run:
        announce(host)
    if every:
        _remove_everywhere(options, host)
    elif images:
        _configure_images(host, runtime, options)
    else:
        _configure_runtime(host, engine, options, config_path or "")


def _find_engine(name: str) -> Engine:
    from amd_ctk.engines.known import ENGINES

    if name not in ENGINES:
        raise UnsupportedOptions(f"unsupported runtime engine: {name}", hint=f"choose from {', '.join(ENGINES)}")
    return ENGINES[name]


def _refuse_contradictions(options: ConfigureOptions, host: Host) -> None:
    default = options.set_as_default or options.unset_as_default
    if options.set_as_default and options.unset_as_default:
        raise UnsupportedOptions("both set and unset as default cannot be used at the same time")
    if options.remove and default:
        raise UnsupportedOptions("remove flag cannot be used along with set-as-default flag")
    if options.undo and (options.remove or default):
        raise UnsupportedOptions("undo flag cannot be used along with remove or set-as-default flag")
    if options.restart and not host.is_this_machine:
        raise UnsupportedOptions(f"the simulated host {host.root} has no engine to restart", hint="remove --restart")


def _remove_everywhere(options: ConfigureOptions, host: Host) -> None:
    """Remove the runtime and the proxy from the files of every engine; one that fails does not stop the others."""
    from amd_ctk.engines.known import ENGINES

    removals = [partial(_configure_runtime, host, engine, options) for engine in ENGINES.values()]
    removals += [partial(_configure_images, host, name, options, is_quiet=True) for name in IMAGE_PROXY_ENGINES]
    failures: list[ToolkitError] = []
    for remove in removals:
        try:
            remove()
        except LedgerInUse:
            # Every other engine would wait for the same lock.
            raise
        except ToolkitError as error:
            print(error, file=sys.stderr, flush=True)
            failures.append(error)
    if failures:
        raise typer.Exit(failures[-1].exit_code)


def _configure_runtime(host: Host, engine: Engine, options: ConfigureOptions, config_path: str = "") -> None:
    """Edit the file of an engine, or show what that would do."""
    target = find_target(host, engine, config_path)
    if options.remove and not config_path and target.is_elsewhere and os.path.exists(host.path(engine.config_path)):
        # From before the daemon was given another file.
        _configure_runtime(host, engine, options, engine.config_path)

    def prepare_change(record: Record) -> EngineEdit:
        if options.undo:
            return prepare_undo(target.file, record)
        edit, program = _plan(target.engine, options, host)
        return prepare(target, edit, record, validate=options.validate, adds=options.adds_runtime, program=program)

    if options.dry_run:
        edited = preview(target, prepare_change, os.environ)
        print_preview(edited, show_diff=options.show_diff, unchanged=lambda: _report_nothing(edited, options))
        return
    if os.path.exists(target.file.path):
        print(f"Loading configuration from: {target.file.shown}", flush=True)
    if options.remove and not config_path and engine.name == "docker" and host.is_this_machine:
        _release_default(target, options.runtime_name)
    edited = apply(target, prepare_change, os.environ)
    if edited.changed and GENERATED in (edited.old or "").partition("\n")[0].upper():
        print(f"{edited.file.shown} says {GENERATED}: the program that wrote it may replace it", file=sys.stderr)
    if options.show_diff:
        print_difference(edited)
    _report(host, target.engine, edited, options)
    if options.adds_runtime:
        _pin_low_level_runtime(host)


def _release_default(target: Target, name: str) -> None:
    """Let a running Docker take another default than the runtime, and go on with the removal if it does not."""
    from amd_ctk.configuration.running_docker import DefaultRemains, release_default

    try:
        if release_default(target, name, os.environ):
            print(
                f"Docker has read {target.file.shown} again, with other changes in it, because {name} was its default"
                " runtime",
                flush=True,
            )
    except DefaultRemains as error:
        print(error, file=sys.stderr, flush=True)


def _plan(engine: Engine, options: ConfigureOptions, host: Host) -> tuple[Edit, str]:
    search_path = os.environ.get("PATH", "")
    return plan_edit(engine, options, own_path=sys.argv[0], search_path=search_path, must_exist=host.is_this_machine)


def _pin_low_level_runtime(host: Host) -> None:
    """Keep crun if runc is missing, because a runc that is installed later could not stop crun's containers."""
    crun = find_only_crun([*os.environ.get("PATH", "").split(":"), *LOW_LEVEL_DIRECTORIES])
    if crun and (os.geteuid() == 0 or not host.is_this_machine) and pin(host, crun):
        print(f"Set low-level-runtime to {crun}, because runc is not installed", file=sys.stderr)


def _report(host: Host, engine: Engine, edited: EngineEdit, options: ConfigureOptions) -> None:
    """Print what was done; restart the engine, or print how to do that."""
    if not edited.changed:
        _report_nothing(edited, options)
    else:
        if options.unset_as_default:
            print(f"Removed {options.runtime_name} as the default runtime")
        print_written(edited)
    if options.adds_runtime and options.cdi is None and _cdi_is_off(engine, edited.new or ""):
        print(f"CDI is turned off in {edited.file.shown}; --cdi turns it on", file=sys.stderr)
    if engine.service and options.restart:
        restart(restart_command(host, engine.service), engine.service)
        print(f"Restarted {engine.service} daemon")
    else:
        ask_for_restart(engine, is_changed=edited.changed)


def _cdi_is_off(engine: Engine, text: str) -> bool:
    document = engine.read(text)
    switch = engine.find_layout(document).cdi
    return switch is not None and document.get(switch) is False


def _report_nothing(edited: EngineEdit, options: ConfigureOptions) -> None:
    if options.remove:
        print(f"{edited.file.shown} contains nothing added by amd-ctk", file=sys.stderr)
    elif options.unset_as_default:
        print(f"{options.runtime_name} is not the default runtime in {edited.file.shown}", file=sys.stderr)
    else:
        print(up_to_date(edited))


def _configure_images(host: Host, engine: str, options: ConfigureOptions, *, is_quiet: bool = False) -> None:
    """Put the proxy in the place of registries, or show what that would do; `is_quiet` skips unchanged files."""
    from amd_ctk.engines.image_proxy import plan_images

    change = preview if options.dry_run else apply
    takes_out = options.remove or options.undo
    edits = []
    for target, edit in plan_images(host, engine, os.environ, remove=takes_out):
        # Engines cannot check files of this kind.
        planned = partial(prepare, target, edit, validate=False, adds=False)
        edits.append(change(target, partial(prepare_undo, target.file) if options.undo else planned, os.environ))
    for edited in edits:
        if is_quiet and not edited.changed:
            continue
        if options.dry_run:
            print_preview(edited, show_diff=options.show_diff)
            continue
        if options.show_diff:
            print_difference(edited)
        print_written(edited)
    if any(edited.changed for edited in edits) and not (options.dry_run or takes_out):
        from amd_gpu_images import read_upstreams

        units = " ".join(f"amd-ctk-images@{upstream.port}.socket" for upstream in read_upstreams(host))
        print(f"Please run: sudo systemctl enable --now {units}")
