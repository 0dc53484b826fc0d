"""The common part of lists of GPUs: which GPUs they contain, their first line, and the error if there is no list."""

from __future__ import annotations

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def tracker_with_rules(host: Host) -> Tracker:
    """Return the tracker that judges the health of GPUs by the settings of the host; SettingsError."""
    from amd_device_spec.settings import read_settings
    from amd_gpu_tracker import Tracker

    return Tracker(host, rules=read_settings(host).choice_rules())


def count_gpus(gpus: list[Gpu]) -> str:
    """Return the first line of every list of GPUs."""
    return f"Found {len(gpus)} AMD GPU device{'' if len(gpus) == 1 else 's'}"
