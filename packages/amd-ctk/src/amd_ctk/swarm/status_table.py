"""Format what a node advertises: as a table, and as JSON."""

from __future__ import annotations

from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.show.listing import Column, Listing, cut_id, pad_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.swarm.status import AdvertisedGpu, Advertisement, Reservation

HEADER = ("GPU Id", "Model", "VRAM (MiB)", "Advertised as", "Reserved by")
WIDTHS = (10, 12, 12, 36, 30)
COLUMNS = (
    *(Column(header=HEADER[0]), Column(header=HEADER[1], yields=2), Column(header=HEADER[2], yields=1)),
    *(Column(header=HEADER[3], least=18), Column(header=HEADER[4], least=24)),
)


def format_advertisement(advertisement: Advertisement) -> str:
    """Return the table of GPUs, and a line for each pool of VRAM."""
    rule = "-" * sum(WIDTHS)
    rows = [_line(row) for row in list_advertisement(advertisement, no_trunc=False).rows]
    return "\n".join([rule, _line(HEADER), rule, *rows, *format_pools(advertisement)])


def list_advertisement(advertisement: Advertisement, *, no_trunc: bool) -> Listing:
    """Return the GPUs as a list, with ids of containers as `docker ps` shows them."""
    rows = [row for gpu in advertisement.gpus for row in _rows(gpu, no_trunc=no_trunc)]
    return Listing(columns=COLUMNS, rows=tuple(rows))


def format_pools(advertisement: Advertisement) -> list[str]:
    """Return a line for each pool of VRAM."""
    return [
        f"{pool.kind}: {pool.offered_mb} MiB advertised, {pool.reserved_mb} MiB reserved"
        for pool in advertisement.pools
    ]


def format_json(advertisement: Advertisement) -> str:
    """Return everything as JSON; resources as they are written in daemon.json, null for no unique id."""
    import json

    gpus = [
        {
            **gpu.as_dict(),
            "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
            "resources": [str(resource) for resource in gpu.resources],
            "reservations": [_reservation_fields(reservation) for reservation in gpu.reservations],
        }
        for gpu in advertisement.gpus
    ]
    pools = [pool.as_dict() for pool in advertisement.pools]
    return json.dumps({"gpus": gpus, "pools": pools, "problems": list(advertisement.problems)}, indent=2)


def _reservation_fields(reservation: Reservation) -> dict[str, object]:
    return {**reservation.as_dict(), "service": reservation.service or None, "task": reservation.task or None}


def _rows(gpu: AdvertisedGpu, *, no_trunc: bool) -> list[tuple[str, ...]]:
    """Return as many rows as the longer of the two lists of a GPU needs."""
    advertised = [str(resource) for resource in gpu.resources] or ["-"]
    reserved = [_reservation(reservation, no_trunc=no_trunc) for reservation in gpu.reservations] or ["-"]
    first = (str(gpu.number), gpu.model, str(gpu.vram_mb))
    return [
        (*(first if row == 0 else ("", "", "")), *("".join(column[row : row + 1]) for column in (advertised, reserved)))
        for row in range(max(len(advertised), len(reserved)))
    ]


def _reservation(reservation: Reservation, *, no_trunc: bool) -> str:
    what = f"{reservation.vram_mb} MiB" if reservation.vram_mb else "whole"
    if no_trunc:
        return " ".join(filter(None, (reservation.task, reservation.container_id, what)))
    return f"{_task_name(reservation) or cut_id(reservation.container_id)} {what}"


def _task_name(reservation: Reservation) -> str:
    """Return what tells a task from the others on this node.

    It is called SERVICE.SLOT.ID, or, of a service with one task on each node, SERVICE.NODE.ID.
    """
    name, _, last = reservation.task.rpartition(".")
    slot = name.rpartition(".")[2]
    return (name if slot.isdecimal() else reservation.service) or last


def _line(columns: Sequence[str]) -> str:
    return pad_columns([printable(column) for column in columns], WIDTHS).rstrip()
