"""Compare what a node advertises to its swarm with the GPUs it has, and list what containers have reserved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from amd_ctk.swarm.docker import TaskName
from amd_ctk.swarm.resources import Resource, gpus_named_by, shared_gpus, vram_mb_of
from amd_device_spec.settings import Settings
from amd_gpu_tracker import Status
from amd_gpu_tracker.watch.show.listing import Column, Listing, cut_id, format_fixed
from amdgpu_discovery.choices.selection import FORMS, form_of, is_identity
from amdgpu_discovery.command_line.listing import to_json
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.value import Value

HEADER = ("GPU Id", "Model", "VRAM (MiB)", "Advertised as", "Reserved by")
WIDTHS = (10, 12, 12, 36, 30)
COLUMNS = (
    *(Column(header=HEADER[0]), Column(header=HEADER[1], yields=2), Column(header=HEADER[2], yields=1)),
    *(Column(header=HEADER[3], least=18), Column(header=HEADER[4], least=24)),
)


class SwarmReservation(Value):
    """The part of a GPU that a container has reserved."""

    container_id: str
    # Generic resources by which Docker Swarm chose the node.
    kinds: tuple[str, ...]
    # Reserved memory in MiB; 0 for the whole GPU.
    vram_mb: int = 0
    # Swarm's names for the service and the task, such as `training.1.x8f3k2j5`; "" if Docker does not report them.
    service: str = ""
    task: str = ""


# By GPU number.
Reservations = dict[int, list[SwarmReservation]]


class AdvertisedGpu(Value):
    """A GPU, the resources that name it, and its reservations."""

    number: int
    uuid: str
    pci_address: str
    model: str
    vram_mb: int
    resources: tuple[Resource, ...]
    reservations: tuple[SwarmReservation, ...]


class Pool(Value):
    """An advertised amount of VRAM, in MiB."""

    kind: str
    offered_mb: int
    reserved_mb: int


class Advertisement(Value):
    """Everything a node advertises, and a sentence for each problem."""

    gpus: tuple[AdvertisedGpu, ...]
    pools: tuple[Pool, ...]
    problems: tuple[str, ...]


def build_advertisement(
    gpus: Sequence[Gpu],
    resources: Sequence[Resource],
    settings: Settings,
    *,
    reservations: Reservations,
    is_tracking: bool,
) -> Advertisement:
    """Combine the advertised resources and the reservations with the GPUs."""
    advertised = tuple(
        AdvertisedGpu(
            number=gpu.number,
            uuid=gpu.uuid,
            pci_address=str(gpu.pci_address),
            model=model_of(gpu),
            vram_mb=vram_mb_of(gpu),
            resources=tuple(resource for resource in resources if gpu.number in gpus_named_by(resource, gpus)),
            reservations=tuple(reservations.get(gpu.number, ())),
        )
        for gpu in gpus
    )
    pools = tuple(
        Pool(kind=resource.kind, offered_mb=resource.amount or 0, reserved_mb=_reserved(resource.kind, advertised))
        for resource in resources
        if resource.kind in settings.swarm_vram_resources
    )
    problems = [
        *_problems_of_names(resources, gpus, settings, is_tracking=is_tracking),
        *_problems_of_pools(pools, gpus, is_tracking=is_tracking),
    ]
    return Advertisement(gpus=advertised, pools=pools, problems=tuple(problems))


def reservations_of_leases(status: Status) -> Reservations:
    """Return the reservations of Swarm's tasks in the GPU Tracker, by GPU number."""
    return {
        gpu.number: [
            SwarmReservation(container_id=use.container_id, kinds=use.kinds, vram_mb=use.vram_mb)
            for use in gpu.containers
            if use.kinds
        ]
        for gpu in status.gpus
    }


def reservations_of_tasks(tasks: Mapping[str, Sequence[Resource]], gpus: Sequence[Gpu]) -> Reservations:
    """Return Swarm's own reservations of whole GPUs, by GPU number. For hosts without the GPU Tracker."""
    reserved: Reservations = {}
    for container_id, resources in tasks.items():
        for resource in resources:
            for number in gpus_named_by(resource, gpus):
                reservation = SwarmReservation(container_id=container_id, kinds=(resource.kind,))
                reserved.setdefault(number, []).append(reservation)
    return reserved


def name_tasks(reservations: Reservations, names: Mapping[str, TaskName]) -> Reservations:
    """Add the names of tasks and services to the reservations; `names` are by container id."""
    return {
        number: [
            each.replace(**names[each.container_id].as_dict()) if each.container_id in names else each
            for each in reserved
        ]
        for number, reserved in reservations.items()
    }


def _reserved(kind: str, gpus: Sequence[AdvertisedGpu]) -> int:
    return sum(reservation.vram_mb for gpu in gpus for reservation in gpu.reservations if kind in reservation.kinds)


def _problems_of_names(
    resources: Sequence[Resource], gpus: Sequence[Gpu], settings: Settings, *, is_tracking: bool
) -> Iterator[str]:
    for resource in resources:
        if resource.kind in settings.swarm_resources and resource.amount is not None:
            yield f"{resource} is an amount and names no GPU, so every task that gets it is refused"
        elif resource.kind in settings.swarm_resources and not gpus_named_by(resource, gpus):
            yield f"{resource} names no GPU of this node, so every task that gets it is refused"
        elif resource.kind not in settings.swarm_resources and is_identity(resource.value):
            yield f"{resource.kind} is not in the setting swarm-resources, so no task gets a GPU by it"
        elif resource.kind in settings.swarm_resources and form_of(resource.value) != settings.swarm_resource_names:
            yield (
                f"{resource} names a GPU by {FORMS[form_of(resource.value)]}, but swarm-resource-names is another form,"
                " so no task gets a GPU by it"
            )
    numbers_by_kinds: dict[tuple[str, ...], list[int]] = {}
    for number, naming in shared_gpus(resources, gpus):
        kinds = tuple(sorted({resource.kind for resource in naming}))
        numbers_by_kinds.setdefault(kinds, []).append(number)
    for kinds, numbers in numbers_by_kinds.items():
        names = f"GPUs [{' '.join(map(str, numbers))}] are advertised twice, as {' and '.join(kinds)}"
        means = "the second task is refused" if is_tracking else "without the GPU Tracker two tasks share one"
        yield f"{names}, and Swarm gives them out twice: {means}"


def _problems_of_pools(pools: Sequence[Pool], gpus: Sequence[Gpu], *, is_tracking: bool) -> Iterator[str]:
    total_mb = sum(vram_mb_of(gpu) for gpu in gpus)
    for pool in pools:
        if pool.offered_mb > total_mb:
            yield f"{pool.kind} advertises {pool.offered_mb} MiB, but the GPUs have {total_mb} MiB"
        if not is_tracking:
            yield f"{pool.kind} is advertised while the GPU Tracker is disabled, so every task that gets it is refused"


def format_advertisement(advertisement: Advertisement) -> str:
    """Format the table of GPUs, and a line for each pool of VRAM."""
    rows = list_advertisement(advertisement, no_trunc=False).rows
    return "\n".join([*format_fixed([HEADER, *rows], WIDTHS), *format_pools(advertisement)])


def list_advertisement(advertisement: Advertisement, *, no_trunc: bool) -> Listing:
    """Return the GPUs as a list; without `no_trunc`, container ids are cut as `docker ps` does."""
    rows = [row for gpu in advertisement.gpus for row in _rows(gpu, no_trunc=no_trunc)]
    return Listing(columns=COLUMNS, rows=tuple(rows))


def format_pools(advertisement: Advertisement) -> list[str]:
    """Return a line for each pool of VRAM."""
    return [
        f"{pool.kind}: {pool.offered_mb} MiB advertised, {pool.reserved_mb} MiB reserved"
        for pool in advertisement.pools
    ]


def format_json(advertisement: Advertisement) -> str:
    """Format everything as JSON: resources as in daemon.json, null for a missing unique id."""
    gpus = [
        {
            **gpu.as_dict(),
            "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
            "resources": [str(resource) for resource in gpu.resources],
            "reservations": [
                {**reservation.as_dict(), "service": reservation.service or None, "task": reservation.task or None}
                for reservation in gpu.reservations
            ],
        }
        for gpu in advertisement.gpus
    ]
    pools = [pool.as_dict() for pool in advertisement.pools]
    return to_json({"gpus": gpus, "pools": pools, "problems": list(advertisement.problems)})


def _rows(gpu: AdvertisedGpu, *, no_trunc: bool) -> list[tuple[str, ...]]:
    """Return a GPU's rows: one for each of its resources or reservations, whichever are more."""
    advertised = [str(resource) for resource in gpu.resources] or ["-"]
    reserved = [_reservation(reservation, no_trunc=no_trunc) for reservation in gpu.reservations] or ["-"]
    rows = list(zip_longest(advertised, reserved, fillvalue=""))
    first = (str(gpu.number), gpu.model, str(gpu.vram_mb))
    return [(*first, *rows[0]), *(("", "", "", *row) for row in rows[1:])]


def _reservation(reservation: SwarmReservation, *, no_trunc: bool) -> str:
    what = f"{reservation.vram_mb} MiB" if reservation.vram_mb else "whole"
    if no_trunc:
        return " ".join(filter(None, (reservation.task, reservation.container_id, what)))
    return f"{_task_name(reservation) or cut_id(reservation.container_id)} {what}"


def _task_name(reservation: SwarmReservation) -> str:
    """Return the shortest unambiguous name of a task on this node.

    Swarm names tasks SERVICE.SLOT.ID, or SERVICE.NODE.ID for a service with one task on each node.
    """
    name, _, last = reservation.task.rpartition(".")
    slot = name.rpartition(".")[2]
    return (name if slot.isdecimal() else reservation.service) or last
