"""amd-ctk swarm: the GPUs of a node in a cluster of Docker Swarm."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from amd_ctk.cli.context import announce, host_of
from amd_ctk.cli.edited import ask_for_restart, print_difference, print_preview, print_written, up_to_date
from amd_ctk.cli.group import command_group
from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.resources import Plan, Resource, build_resources
from amd_device_spec.request import VRAM_KIND
from amdgpu_discovery.host import Host
from amdgpu_discovery.identities import BY_PCI, BY_UUID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_ctk.configuration.edit import Edit, Edited
    from amd_ctk.configuration.ledger import Record
    from amdgpu_discovery.gpu import Gpu

IMAGES = "oci:DIR[:TAG], docker-archive:FILE, dir:PATH, docker:NAME or podman:NAME."

app = command_group("Docker Swarm related commands")

ConfigPath = Annotated[str, typer.Option("--config-path", help="Docker's configuration file. Default: its own.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, without doing it.")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]


class NamedBy(str, Enum):
    """The form of the GPU names that are advertised."""

    UUID = BY_UUID
    PCI = BY_PCI


class SetupCommand(TyperCommand):
    """A command whose --vram may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        return super().parse_args(ctx, [f"--vram={VRAM_KIND}" if word == "--vram" else word for word in args])


@app.command("setup", cls=SetupCommand)
def setup(
    context: typer.Context,
    *,
    kind: Annotated[str, typer.Option(help="Generic resource kind by which services request GPUs.")] = "AMD_GPU",
    named_by: Annotated[NamedBy, typer.Option("--by", help="How GPUs are named.")] = NamedBy.UUID,
    also_by_model: Annotated[
        bool, typer.Option("--also-by-model", help="Also advertise them by model, such as MI300X.")
    ] = False,
    vram: Annotated[
        str,
        typer.Option(
            metavar="[=KIND]", help="Also advertise GPU memory (MiB) as generic resource KIND. Default: VRAM."
        ),
    ] = "",
    set_as_default: Annotated[
        bool, typer.Option("--set-as-default", help="Make amd the default runtime, under which all tasks run.")
    ] = False,
    with_labels: Annotated[
        bool, typer.Option("--labels", help="Label the node, which must be a manager, instead of printing the command.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop advertising the GPUs.")] = False,
    dry_run: DryRun = False,
    show_diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Let Docker, where installed, check the file first.")
    ] = True,
    config_path: ConfigPath = "",
) -> None:
    """Advertise the GPUs of this node to a swarm."""
    host = host_of(context)
    node = NodeSetup(host, config_path, dry_run=dry_run, show_diff=show_diff, validate=validate)
    if remove:
        node.withdraw_all()
        return
    from amdgpu_discovery.numbering import require_all_gpus

    plan = Plan(kind=kind, by=named_by.value, also_by_model=also_by_model, vram_kind=vram)
    gpus = _find_gpus(host)
    # What is advertised stands for the whole node.
    require_all_gpus(gpus)
    node_id = _require_manager() if with_labels else ""
    node.advertise(gpus, plan, build_resources(gpus, plan), set_as_default=set_as_default)
    if not dry_run:
        _label(host, gpus, node_id=node_id)


@app.command("status")
def status(context: typer.Context, *, as_json: Json = False, config_path: ConfigPath = "") -> None:
    """Show the GPUs that this node has, advertises and has reserved."""
    from amd_ctk.swarm.advertisement import read_advertisement
    from amd_ctk.swarm.status_table import format_advertisement, format_json

    host = host_of(context)
    advertisement = read_advertisement(host, _find_gpus(host), config_path)
    print(format_json(advertisement) if as_json else format_advertisement(advertisement))
    for problem in () if as_json else advertisement.problems:
        print(problem, file=sys.stderr)


@app.command("prune")
def prune(
    *,
    dry_run: DryRun = False,
    keep_failed: Annotated[bool, typer.Option("--keep-failed", help="Keep services that have a failed task.")] = False,
) -> None:
    """Remove finished one-shot services of the swarm; run it on a manager.

    These are services with the label com.amd.container-toolkit.one-shot=true.
    """
    from amd_ctk.swarm.services import read_one_shots, remove_service

    done = [service for service in read_one_shots() if service.is_done and not (keep_failed and service.has_failed)]
    for service in done:
        if not dry_run:
            remove_service(service)
        ending = "failed" if service.has_failed else "complete"
        print(f"{'Would remove' if dry_run else 'Removed'} service {service.name} ({ending})", flush=True)
    if not done:
        print("No one-shot service is finished")


@app.command("constraint")
def constraint(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help=IMAGES)],
    *,
    gfx: Annotated[str, typer.Option(help="Which of the image's targets.")] = "",
    deep: Annotated[bool, typer.Option("--deep", help="Look into programs and libraries too.")] = False,
) -> None:
    """Print the option of 'docker service create' that keeps an image to nodes with the GPUs it has code for."""
    from amd_ctk.image.check import told_targets
    from amd_ctk.image.contents import targets_of
    from amd_ctk.image.progress import Progress
    from amd_ctk.image.reference import parse_reference, read_image
    from amd_ctk.swarm.constraints import constraint_for

    progress = Progress()
    try:
        found = read_image(parse_reference(image), progress, deep=deep)
    finally:
        progress.finish()
    print(f"--constraint {constraint_for(targets_of(found.layers) or told_targets(found), gfx)}")


class NodeSetup:
    """One run of `swarm setup` on a node."""

    def __init__(self, host: Host, config_path: str, *, dry_run: bool, show_diff: bool, validate: bool) -> None:
        from amd_ctk.configuration.apply import find_target
        from amd_ctk.engines.docker import DOCKER

        self._host = host
        self._target = find_target(host, DOCKER, config_path)
        self._dry_run = dry_run
        self._show_diff = show_diff
        self._validate = validate

    def advertise(self, gpus: Sequence[Gpu], plan: Plan, resources: list[Resource], *, set_as_default: bool) -> None:
        """Advertise these resources, and prepare the runtime and the tracker for them."""
        from amd_ctk.configuration.runtime_program import find_runtime_program
        from amd_ctk.swarm.declaring import declare
        from amd_ctk.swarm.node_settings import find_obstacles, read_node_settings
        from amd_ctk.swarm.setup import plan_setup

        program = find_runtime_program(sys.argv[0], os.environ.get("PATH", "")) if set_as_default else ""
        edit = plan_setup(resources, gpus, default_program=program)

        def prepare_host() -> None:
            # Without the tracker, Swarm would give these GPUs and this memory out twice.
            if plan.vram_kind or plan.also_by_model:
                _enable_tracker(self._host)
            _report_settings(changed=declare(self._host, resources, plan))

        edited = self._edit(edit, adds=True, before_saving=prepare_host)
        for obstacle in find_obstacles(read_node_settings(self._target, edited.new)):
            print(obstacle, file=sys.stderr)

    def withdraw_all(self) -> None:
        """Stop advertising what `swarm setup` advertised."""
        from amd_ctk.swarm.declaring import undeclare
        from amd_ctk.swarm.generic_resources import read_added_resources, withdraw

        kinds: set[str] = set()

        def edit(document: Any, changes: Any) -> Any:
            kinds.update(resource.kind for resource in read_added_resources(changes))
            return withdraw(document, changes)

        self._edit(edit, adds=False, before_saving=lambda: _report_settings(changed=undeclare(self._host, kinds)))

    def _edit(self, edit: Edit, *, adds: bool, before_saving: Callable[[], None]) -> Edited:
        """Edit Docker's configuration, or show what that would do; return the edit."""
        from amd_ctk.configuration.apply import apply, prepare, preview

        def prepare_change(record: Record) -> Edited:
            return prepare(self._target, edit, record, validate=self._validate, adds=adds)

        if self._dry_run:
            edited = preview(self._target, prepare_change, os.environ)
            print_preview(edited, show_diff=self._show_diff, unchanged=lambda: print(up_to_date(edited)))
            return edited
        announce(self._host)
        edited = apply(self._target, prepare_change, os.environ, before_saving=before_saving)
        if self._show_diff:
            print_difference(edited)
        print_written(edited)
        ask_for_restart(edited, self._target.engine)
        return edited


def _find_gpus(host: Host) -> list[Gpu]:
    from amdgpu_discovery.discover import find_gpus

    gpus = find_gpus(host)
    if not gpus:
        raise SwarmError("this host has no AMD GPU that can compute, so there is nothing to advertise")
    return gpus


def _enable_tracker(host: Host) -> None:
    from amd_ctk.cli.gpu_tracker import refresh_cdi_specs
    from amd_gpu_tracker.cli import say
    from amd_gpu_tracker.tracker import Tracker

    def when_enabled() -> None:
        print("GPU Tracker has been enabled", flush=True)
        refresh_cdi_specs(host)

    Tracker(host).enable(tell=say, when_enabled=when_enabled)


def _report_settings(*, changed: bool) -> None:
    from amd_device_spec.settings import CONFIG_FILE

    if changed:
        print(f"Updated the config file: {CONFIG_FILE}", flush=True)


def _require_manager() -> str:
    """Return the id of this node, which can label nodes; SwarmError where it cannot."""
    from amd_ctk.swarm.docker import read_docker_info

    docker_info = read_docker_info()
    if not docker_info.is_manager:
        raise SwarmError(
            "this node is not a swarm manager, so it cannot label itself",
            hint="run without --labels, and run the printed command on a manager",
        )
    return docker_info.node_id


def _label(host: Host, gpus: Sequence[Gpu], *, node_id: str) -> None:
    """Label this node, or print the command that does it where its id is not known."""
    import shlex

    from amd_ctk.swarm.docker import docker, read_labels
    from amd_ctk.swarm.labels import build_labels, label_command, read_driver, read_node_name

    labels = build_labels(gpus, read_driver(host))
    if not node_id:
        print(f"To label this node, run on a manager:\n{shlex.join(label_command(labels, read_node_name(host)))}")
    # Swarm restarts tasks that hold GPUs when a node is updated, even with the labels that it already has.
    elif labels.items() <= read_labels(node_id).items():
        print("The labels of this node are up to date")
    else:
        docker(*label_command(labels, node_id)[1:])
        print(f"Labelled this node: {' '.join(f'{name}={value}' for name, value in labels.items())}")
