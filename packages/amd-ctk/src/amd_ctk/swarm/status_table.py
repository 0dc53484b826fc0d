"""Format what a node advertises: as a table, and as JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.swarm.status import AdvertisedGpu, Advertisement, Pool, Reservation

HEADER = ("GPU Id", "Model", "VRAM (MiB)", "Advertised as", "Reserved by")
WIDTHS = (10, 12, 12, 36, 30)
# As `docker ps` shortens them.
ID_LENGTH = 12


def format_advertisement(advertisement: Advertisement) -> str:
    """Return the table of GPUs, and a line for each pool of VRAM."""
    rows = [row for gpu in advertisement.gpus for row in _rows(gpu)]
    rule = "-" * sum(WIDTHS)
    return "\n".join([rule, _line(HEADER), rule, *map(_line, rows), *map(_pool_line, advertisement.pools)])


def format_json(advertisement: Advertisement) -> str:
    """Return everything as JSON; resources as they are written in daemon.json, null for no unique id."""
    import json

    gpus = [
        {
            **gpu.as_dict(),
            "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
            "resources": [str(resource) for resource in gpu.resources],
            "reservations": [reservation.as_dict() for reservation in gpu.reservations],
        }
        for gpu in advertisement.gpus
    ]
    pools = [pool.as_dict() for pool in advertisement.pools]
    return json.dumps({"gpus": gpus, "pools": pools, "problems": list(advertisement.problems)}, indent=2)


def _rows(gpu: AdvertisedGpu) -> list[tuple[str, ...]]:
    """Return as many rows as the longer of the two lists of a GPU needs."""
    advertised = [str(resource) for resource in gpu.resources] or ["-"]
    reserved = [_reservation(reservation) for reservation in gpu.reservations] or ["-"]
    first = (str(gpu.number), gpu.model, str(gpu.vram_mb))
    return [
        (*(first if row == 0 else ("", "", "")), *("".join(column[row : row + 1]) for column in (advertised, reserved)))
        for row in range(max(len(advertised), len(reserved)))
    ]


def _reservation(reservation: Reservation) -> str:
    what = f"{reservation.vram_mb} MiB" if reservation.vram_mb else "whole"
    return f"{reservation.container_id[:ID_LENGTH]} {what}"


def _pool_line(pool: Pool) -> str:
    return f"{pool.kind}: {pool.offered_mb} MiB advertised, {pool.reserved_mb} MiB reserved"


def _line(columns: Sequence[str]) -> str:
    return "".join(f"{column:<{width}}" for column, width in zip(columns, WIDTHS, strict=True)).rstrip()
