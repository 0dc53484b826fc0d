"""amd-ctk swarm: the GPUs of a node in a cluster of Docker Swarm."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from amd_ctk.swarm.resources import ResourcePlan, SwarmError, build_resources
from amd_device_spec.request import VRAM_KIND
from amdgpu_discovery.choices.selection import BY_PCI, BY_UUID
from amdgpu_discovery.command_line.context import PrintJson, command_group, host_of, whole_number
from amdgpu_discovery.command_line.plain_help import DryRun, PlainCommand, examples
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.swarm.status import Advertisement
    from amdgpu_discovery.gpu import Gpu

IMAGES = "NAME, docker://NAME, docker:NAME, podman:NAME, oci:DIR[:TAG], docker-archive:FILE or dir:PATH."

app = command_group("Give GPUs to tasks of Docker Swarm")

ConfigPath = Annotated[
    str, typer.Option("--config-path", metavar="FILE", help="Docker's configuration file. Default: its own.")
]


def _amount(metavar: str, help_text: str) -> Any:
    """Return an option that takes a whole number; 0 means none."""
    return typer.Option(parser=whole_number(0), metavar=metavar, show_default=False, help=help_text)


class NamedBy(str, Enum):
    """The form of the GPU names that are advertised."""

    UUID = BY_UUID
    PCI = BY_PCI


class SetupCommand(PlainCommand):
    """A command whose --vram may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        return super().parse_args(ctx, [f"--vram={VRAM_KIND}" if word == "--vram" else word for word in args])


@app.command("setup", cls=SetupCommand)
@examples(
    "sudo amd-ctk swarm setup",
    "sudo amd-ctk swarm setup --also-by-model --dry-run --diff",
    "sudo amd-ctk swarm setup --remove",
)
def setup(
    context: typer.Context,
    *,
    kind: Annotated[
        str, typer.Option(metavar="NAME", help="Generic resource kind by which services request GPUs.")
    ] = "AMD_GPU",
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
    vram_mib: Annotated[int, _amount("MIB", "Like --vram, but advertise only this much memory.")] = 0,
    headroom_mib: Annotated[
        int, _amount("MIB", "Like --vram, and leave this much of each task's memory to ROCm itself.")
    ] = 0,
    set_as_default: Annotated[
        bool, typer.Option("--set-as-default", help="Make amd the default runtime, so that all tasks run under it.")
    ] = False,
    with_labels: Annotated[
        bool,
        typer.Option("--labels", help="Label this node, which must be a manager, instead of printing the command."),
    ] = False,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Undo what this command did to Docker's configuration; with --labels also remove the labels.",
        ),
    ] = False,
    dry_run: DryRun = False,
    show_diff: Annotated[bool, typer.Option("--diff", help="Print what changes.")] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Let an installed Docker check the file first.")
    ] = True,
    config_path: ConfigPath = "",
) -> None:
    """Advertise the GPUs of this node to a swarm."""
    from functools import partial

    from amd_ctk.cli.gpu_tracker import follow_switch
    from amd_ctk.swarm.labels import remove_labels, require_manager, set_labels
    from amd_ctk.swarm.setup import NodeSetup
    from amd_gpu_tracker.cli import enable_tracker
    from amdgpu_discovery.numbering import require_all_gpus

    host = host_of(context)
    switch_on = partial(enable_tracker, host, partial(follow_switch, host))
    node = NodeSetup(host, config_path, switch_on, dry_run=dry_run, show_diff=show_diff, validate=validate)
    if remove:
        node_id = require_manager() if with_labels else ""
        node.withdraw_all()
        if not dry_run:
            remove_labels(host, node_id=node_id)
        return
    plan = ResourcePlan(
        kind=kind,
        by=named_by.value,
        also_by_model=also_by_model,
        vram_kind=vram or (VRAM_KIND if vram_mib or headroom_mib else ""),
        vram_mib=vram_mib,
        headroom_mib=headroom_mib,
    )
    gpus = _find_gpus(host)
    # The advertisement stands for the whole node.
    require_all_gpus(gpus)
    gpus = _without_drained(host, gpus)
    node_id = require_manager() if with_labels else ""
    node.advertise(gpus, plan, build_resources(gpus, plan), set_as_default=set_as_default)
    if not dry_run:
        set_labels(host, gpus, node_id=node_id)


@app.command("status")
@examples("amd-ctk swarm status", "amd-ctk swarm status --json")
def status(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Show whole names and ids.")] = False,
    config_path: ConfigPath = "",
) -> None:
    """Show the GPUs of this node, and who reserved them."""
    from amd_ctk.swarm.advertisement import read_advertisement
    from amd_ctk.swarm.status import format_json

    host = host_of(context)
    advertisement = read_advertisement(host, _find_gpus(host), config_path)
    if as_json:
        print(format_json(advertisement))
    else:
        _print_advertisement(advertisement, no_trunc=no_trunc)
    for problem in () if as_json else advertisement.problems:
        print(problem, file=sys.stderr)


@app.command("prune")
@examples("sudo amd-ctk swarm prune --dry-run", "sudo amd-ctk swarm prune --keep-failed")
def prune(
    *,
    dry_run: DryRun = False,
    keep_failed: Annotated[bool, typer.Option("--keep-failed", help="Keep services that have a failed task.")] = False,
) -> None:
    """Remove finished one-shot services, on a manager.

    These are services with the label com.amd.container-toolkit.one-shot=true.
    """
    from amd_ctk.swarm.jobs import read_one_shots, remove_service

    done = [service for service in read_one_shots() if service.is_done and not (keep_failed and service.has_failed)]
    for service in done:
        if not dry_run:
            remove_service(service)
        ending = "failed" if service.has_failed else "complete"
        print(f"{'Would remove' if dry_run else 'Removed'} service {service.name} ({ending})", flush=True)
    if not done:
        print("No one-shot service is finished")


@app.command("submit")
@examples(
    "amd-ctk swarm submit sweep --vram=4000 --each=params.txt IMAGE -- ./train.sh",
    "amd-ctk swarm submit seed --gpus=1 --each=- IMAGE -- python3 train.py --seed",
)
def submit(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The services are named NAME-1, NAME-2, ... by line.")],
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image of the services.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command, to which the words of each line are appended."),
    ] = None,
    *,
    each: Annotated[str, typer.Option(metavar="FILE", help="A job for each line of FILE; - is standard input.")],
    vram: Annotated[int, _amount("MIB", "GPU memory that each job reserves.")] = 0,
    gpus: Annotated[int, _amount("COUNT", "Whole GPUs that each job reserves.")] = 0,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", metavar="EXPRESSION", help="Which nodes may run the jobs; may be repeated."),
    ] = None,
    from_line: Annotated[
        int,
        typer.Option(
            "--from-line",
            metavar="LINE",
            parser=whole_number(1),
            show_default=False,
            help="Start at this line of FILE.",
        ),
    ] = 1,
    dry_run: DryRun = False,
) -> None:
    """Submit a job for each line of a file."""
    import shlex

    from amd_ctk.swarm import jobs
    from amdgpu_discovery.command_line.parameters import read_parameters
    from amdgpu_discovery.untrusted.plain_text import printable

    template = jobs.Template(
        resources=jobs.resources_of_job(host_of(context), vram_mib=vram, gpus=gpus),
        constraints=tuple(constraint or ()),
        image=image,
        command=tuple(command or ()),
    )
    chosen = jobs.parse_jobs(name, read_parameters(each), each, first=from_line)
    if dry_run:
        for job in chosen:
            print(printable(shlex.join(jobs.service_command(job, template))))
        return
    jobs.require_new_names(chosen)
    for job in jobs.submit(chosen, template, each):
        print(f"Submitted {job.name}: {printable(shlex.join(job.args))}", flush=True)


@app.command("constraint")
@examples("amd-ctk swarm constraint docker:rocm/pytorch", "amd-ctk swarm constraint docker:rocm/pytorch --gfx=gfx942")
def constraint(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help=IMAGES)],
    *,
    gfx: Annotated[str, typer.Option(metavar="TARGETS", help="Which of the image's targets.")] = "",
    deep: Annotated[bool, typer.Option("--deep", help="Look into programs and libraries too.")] = False,
) -> None:
    """Print the constraint for nodes that fit an image."""
    from amd_ctk.companions import IMAGE_READER, require
    from amd_ctk.swarm.resources import constraint_for

    require(IMAGE_READER)
    from amd_gpu_images import read_targets

    print(f"--constraint {constraint_for(read_targets(image, deep=deep), gfx)}")


def _find_gpus(host: Host) -> list[Gpu]:
    from amdgpu_discovery.discover import find_gpus

    gpus = find_gpus(host)
    if not gpus:
        raise SwarmError("this host has no AMD GPU that can compute, so there is nothing to advertise")
    return gpus


def _without_drained(host: Host, gpus: list[Gpu]) -> list[Gpu]:
    """Return the GPUs that tasks may get; SwarmError if there is none."""
    from amd_gpu_tracker import Tracker
    from amdgpu_discovery.choices.unknown_gpus import format_numbers

    left = Tracker(host).gpus.without_drained(gpus)
    if not left:
        raise SwarmError("all GPUs of this host are drained or sick", hint="'amd-ctk status' shows them")
    if len(left) < len(gpus):
        numbers = format_numbers([gpu.number for gpu in gpus if gpu not in left])
        print(f"not advertised, because drained or sick: GPU {numbers}", file=sys.stderr)
    return left


def _print_advertisement(advertisement: Advertisement, *, no_trunc: bool) -> None:
    from amd_ctk.swarm.status import format_advertisement, format_pools, list_advertisement
    from amd_gpu_tracker.watch.show.screen import print_list
    from amdgpu_discovery.command_line.standard_output import is_terminal

    if not is_terminal() and not no_trunc:
        print(format_advertisement(advertisement))
        return
    print_list(list_advertisement(advertisement, no_trunc=no_trunc), no_trunc=no_trunc)
    for line in format_pools(advertisement):
        print(line)
