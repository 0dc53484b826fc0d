"""Formats status: the guide's table, a wider one, a list for terminals, JSON."""

from __future__ import annotations

from amd_gpu_tracker.leases.status import ContainerUse, GpuUse, LostGpu, Status
from amd_gpu_tracker.times import format_age, format_time
from amd_gpu_tracker.watch.show.listing import ID_LENGTH, Column, Listing, format_fixed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RULE = 120
# The columns of the guide, then those of `--wide`.
HEADER = ("GPU Id", "UUID", "Accessibility", "Container Ids")
MORE_HEADER = ("Name", "Since", "By")
WIDTHS = (10, 25, 20, 66, 30, 22, 10)
# The same on a terminal, which shortens ids before names.
COLUMNS = (
    *(Column(header=HEADER[0]), Column(header=HEADER[1]), Column(header=HEADER[2])),
    Column(header=HEADER[3], least=ID_LENGTH, is_id=True),
    Column(header=MORE_HEADER[0], least=ID_LENGTH),
)
MORE_COLUMNS = (Column(header=MORE_HEADER[1], yields=2), Column(header=MORE_HEADER[2], yields=1))
# The first columns in the lines after a GPU's first container.
BLANK = ("", "", "")


def format_status(status: Status, *, names: Mapping[str, str] | None = None) -> str:
    """Return the guide's table; with the `names` of containers, the wider one."""
    rows = [row for gpu in status.tracked for row in _rows(gpu, names)]
    if names is None:
        return "\n".join(format_fixed([HEADER, *rows], WIDTHS, rule=RULE))
    return "\n".join(format_fixed([HEADER + MORE_HEADER, *rows], WIDTHS))


def list_status(status: Status, names: Mapping[str, str], *, wide: bool, now: float | None = None) -> Listing:
    """Return status as a list for a terminal: the guide's columns and names; if `wide`, also what `--wide` adds.

    With the time `now`, the list shows how long ago containers got their GPUs, otherwise when.
    """
    columns = COLUMNS + (MORE_COLUMNS if wide else ())
    rows = [row[: len(columns)] for gpu in status.tracked for row in _rows(gpu, names, now)]
    return Listing(columns=columns, rows=tuple((*row, *[""] * (len(columns) - len(row))) for row in rows))


def format_json(status: Status, names: Mapping[str, str]) -> str:
    """Return everything as JSON; times are seconds since 1970, and an id that the hardware does not have is null."""
    import json

    privileged = [_container_fields(use, names) for use in status.privileged]
    document = {
        "enabled": status.enabled,
        "gpus": [_gpu_fields(gpu, names) for gpu in status.gpus],
        "lost": [_gpu_fields(gpu, names) for gpu in status.lost],
        "privileged": privileged,
        "problems": list(status.problems),
    }
    return json.dumps(document, indent=2)


def _rows(gpu: GpuUse, names: Mapping[str, str] | None, now: float | None = None) -> list[tuple[str, ...]]:
    first = _first_columns(gpu)
    uses = [_columns(use, names, now) for use in gpu.containers]
    if gpu.has_unreadable:
        uses.append(("?",))
    uses = uses or [("-",)]
    return [(*first, *uses[0]), *((*BLANK, *columns) for columns in uses[1:])]


def _first_columns(gpu: GpuUse) -> tuple[str, ...]:
    is_lost = isinstance(gpu, LostGpu)
    return gpu.listed_number, gpu.uuid, f"Lost ({gpu.accessibility})" if is_lost else gpu.accessibility.capitalize()


def _columns(use: ContainerUse, names: Mapping[str, str] | None, now: float | None) -> tuple[str, ...]:
    if names is None:
        return (use.container_id,)
    since = format_time(use.since) if now is None else format_age(now - use.since)
    ways = [*use.ways, f"{use.vram_mb} MiB" if use.vram_mb else ""]
    return use.container_id, _name_cell(use, names), since, ", ".join(filter(None, ways))


def _name_cell(use: ContainerUse, names: Mapping[str, str]) -> str:
    """Return the engine's name of a container, and the person to whom it belongs, if known."""
    name = names.get(use.container_id) or ""
    if not use.person:
        return name or "-"
    # Many hosts give GPUs to no people.
    from amdgpu_discovery.usage.people import name_of_person

    person = name_of_person(use.person)
    return f"{name} ({person})" if name else person


def _gpu_fields(gpu: GpuUse, names: Mapping[str, str]) -> dict[str, object]:
    return {
        **gpu.as_dict(),
        "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
        "containers": [_container_fields(use, names) for use in gpu.containers],
    }


def _container_fields(use: ContainerUse, names: Mapping[str, str]) -> dict[str, object]:
    return {**use.as_dict(), "name": names.get(use.container_id) or None}
