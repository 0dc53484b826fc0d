"""Check what an image requires before its container is made; loaded for images that require something."""

from __future__ import annotations

from amd_gpu_tracker import gpus_in_spec
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.requirements.check import check_container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


def check_image(host: Host, spec: dict[str, Any], settings: Settings, gpus: Iterable[GpuLocation]) -> list[str]:
    """Return what the log says about the requirements in a spec; RequirementError where they are enforced.

    `gpus` are those that the container is granted; those that its engine gives it count too.
    """
    if settings.image_requirements == "ignore":
        return []
    numbers = {gpu.number for gpu in (*gpus, *_given_gpus(host, spec))}
    return check_container(host, spec["process"]["env"], numbers, enforce=settings.image_requirements == "enforce")


def _given_gpus(host: Host, spec: dict[str, Any]) -> list[GpuLocation]:
    try:
        return gpus_in_spec(spec, locate_gpus(host, board_ids=False))
    except (DriverUnavailable, GpusHidden):
        return []
