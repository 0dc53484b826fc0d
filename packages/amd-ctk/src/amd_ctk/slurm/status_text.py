"""How a node's configuration of Slurm is shown: a table, and JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.slurm.status import SlurmStatus

HEADER = ("GPU Id", "Slurm Id", "Type", "DRM Device")
WIDTHS = (10, 10, 12, 24)


def format_status(status: SlurmStatus) -> str:
    """Return the table of GPUs, and a line for each thing that they depend on."""
    rule = "-" * sum(WIDTHS)
    rows = [(str(gpu.number), _number(gpu.slurm_number), gpu.type, gpu.file) for gpu in status.gpus]
    return "\n".join(
        [
            *(rule, _line(HEADER), rule, *map(_line, rows)),
            f"ConstrainDevices: {'yes' if status.constrains_devices else 'no'}",
            f"Runtime of containers: {status.runtime or '-'}",
        ]
    )


def format_json(status: SlurmStatus) -> str:
    """Return everything as JSON; null for a number that Slurm does not have, and for no runtime."""
    import json

    return json.dumps(
        {
            "gpus": [gpu.as_dict() for gpu in status.gpus],
            "constrains_devices": status.constrains_devices,
            "runtime": status.runtime or None,
            "problems": list(status.problems),
        },
        indent=2,
    )


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)


def _line(columns: tuple[str, ...]) -> str:
    return "".join(f"{column:<{width}}" for column, width in zip(columns, WIDTHS, strict=True)).rstrip()
