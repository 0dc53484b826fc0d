"""What lists of GPUs share: which GPUs they have, their first line, and the error where there is no list."""

from __future__ import annotations

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from amd_gpu_tracker import GpuState, Tracker
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host


class ListingError(ToolkitError):
    """The GPUs of this host cannot be listed."""


def find_listed_gpus(host: Host) -> list[Gpu]:
    """Return the GPUs to list; ListingError with the original's words in front."""
    try:
        return find_gpus(host)
    except ToolkitError as error:
        raise ListingError(f"failed to list AMD devices: {error.message}", hint=error.hint) from error


def find_gpu_states(host: Host) -> tuple[dict[int, GpuState], list[GpuState]]:
    """Return how each GPU is, by number, and those that are lost; nothing where that cannot be found out."""
    try:
        states = looking_tracker(host).states()
    except ToolkitError:
        return {}, []
    return {gpu.number: gpu for gpu in states if not gpu.is_lost}, [gpu for gpu in states if gpu.is_lost]


def select_requested(host: Host, gpus: Sequence[Gpu], request: str) -> list[Gpu]:
    """Return the GPUs that a request means, or all that fit it, whoever uses them; RequestError, SettingsError."""
    from amd_device_spec.settings import read_settings
    from amdgpu_discovery.choices.candidates import select_described
    from amdgpu_discovery.choices.grammar import parse_choice
    from amdgpu_discovery.choices.rules import NO_RULES
    from amdgpu_discovery.discover import find_unnumbered_gpus

    # Settings that are wrong keep nobody from naming GPUs.
    rules = read_settings(host).choice_rules() if parse_choice(request) else NO_RULES
    return select_described(gpus, request, rules, unnumbered=lambda: find_unnumbered_gpus(host))


def looking_tracker(host: Host) -> Tracker:
    """Return the tracker of a host that judges the health of GPUs as its settings say; SettingsError."""
    from amd_device_spec.settings import read_settings
    from amd_gpu_tracker import Tracker

    return Tracker(host, rules=read_settings(host).choice_rules())


def to_json(document: object) -> str:
    """Return a document as every command prints it with `--json`."""
    # Most lists are tables, and json costs a tenth of one.
    import json

    return json.dumps(document, indent=2)


def format_columns(rows: Sequence[Sequence[str]], *, of_numbers: Container[int] = ()) -> str:
    """Return rows, of which the first is the header, in columns as wide as their longest cell, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{{:{'>' if column in of_numbers else '<'}{width}}}" for column, width in enumerate(widths)]
    return "\n".join("  ".join(formats).format(*row).rstrip() for row in rows)


def count_gpus(gpus: list[Gpu]) -> str:
    """Return the line with which listings begin."""
    return f"Found {len(gpus)} AMD GPU device{'' if len(gpus) == 1 else 's'}"
