"""The common part of lists of GPUs: which GPUs they contain, their first line, and the error if there is no list."""

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
    """Return the GPUs to list; ListingError, which begins with the original toolkit's words."""
    try:
        return find_gpus(host)
    except ToolkitError as error:
        raise ListingError(f"failed to list AMD devices: {error.message}", hint=error.hint) from error


def find_gpu_states(host: Host) -> tuple[dict[int, GpuState], list[GpuState]]:
    """Return the states of GPUs by number, and those of lost GPUs; nothing if the states cannot be read."""
    try:
        states = tracker_with_rules(host).states()
    except ToolkitError:
        return {}, []
    return {gpu.number: gpu for gpu in states if not gpu.is_lost}, [gpu for gpu in states if gpu.is_lost]


def select_requested(host: Host, gpus: Sequence[Gpu], request: str) -> list[Gpu]:
    """Return the GPUs that a request names, or all that fit it, used or free; RequestError, SettingsError."""
    from amd_device_spec.settings import read_settings
    from amdgpu_discovery.choices.candidates import select_described
    from amdgpu_discovery.choices.grammar import parse_choice
    from amdgpu_discovery.choices.rules import NO_RULES
    from amdgpu_discovery.discover import find_unnumbered_gpus

    # Invalid settings must not prevent a request that names GPUs.
    rules = read_settings(host).choice_rules() if parse_choice(request) else NO_RULES
    return select_described(gpus, request, rules, unnumbered=lambda: find_unnumbered_gpus(host))


def tracker_with_rules(host: Host) -> Tracker:
    """Return the tracker that judges the health of GPUs by the settings of the host; SettingsError."""
    from amd_device_spec.settings import read_settings
    from amd_gpu_tracker import Tracker

    return Tracker(host, rules=read_settings(host).choice_rules())


def to_json(document: object) -> str:
    """Format a document the way every command prints it with `--json`."""
    # Imported here because most lists are tables, and json takes a tenth of the time of one.
    import json

    return json.dumps(document, indent=2)


def format_columns(rows: Sequence[Sequence[str]], *, of_numbers: Container[int] = ()) -> str:
    """Align rows, the first being the header, in columns as wide as their longest cell; numbers align right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{{:{'>' if column in of_numbers else '<'}{width}}}" for column, width in enumerate(widths)]
    return "\n".join("  ".join(formats).format(*row).rstrip() for row in rows)


def count_gpus(gpus: list[Gpu]) -> str:
    """Return the first line of every list of GPUs."""
    return f"Found {len(gpus)} AMD GPU device{'' if len(gpus) == 1 else 's'}"
