"""Check what an image requires before its container is made; loaded for images that require something."""

from __future__ import annotations

from amdgpu_discovery.oci_spec import find_given_gpus
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
    numbers = {gpu.number for gpu in (*gpus, *find_given_gpus(host, spec))}
    return check_container(host, spec["process"]["env"], numbers, enforce=settings.image_requirements == "enforce")
