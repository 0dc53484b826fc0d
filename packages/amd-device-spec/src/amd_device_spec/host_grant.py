"""Decide what a container's request gets on a host, as the host is now."""

from __future__ import annotations

from amd_device_spec.grant import Grant, decide_grant
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_device_spec.request import GpuRequest
    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import Gpu, GpuLocation, UnnumberedGpu
    from amdgpu_discovery.host import Host


def grant_on_host(request: GpuRequest | None, host: Host, settings: Settings) -> tuple[Grant, list[GpuLocation]]:
    """Return what a request gets, and the GPUs of the host as far as they were looked at. Errors as `decide_grant`.

    DriverUnavailable where the request needs GPUs and there is no driver.
    """
    if request is None:
        return Grant(gpus=()), []
    gpus = [] if request.asks_for_nothing else _locate_gpus(request, host)
    return _decide(request, gpus, host, settings), gpus


def _decide(request: GpuRequest, gpus: list[GpuLocation], host: Host, settings: Settings) -> Grant:
    def unnumbered() -> list[UnnumberedGpu]:
        return _find_unnumbered_gpus(host)

    def described() -> list[Gpu]:
        return _find_gpus(host)

    if request.job is None or request.asks_for_nothing:
        return decide_grant(request, gpus, settings, unnumbered=unnumbered, described=described)
    from amd_device_spec.slurm.grant import grant_in_job

    return grant_in_job(request, request.job, gpus, host, settings, unnumbered=unnumbered, described=described)


def _locate_gpus(request: GpuRequest, host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host, board_ids=request.names_identities)
    except (DriverUnavailable, GpusHidden):
        if request.needs_gpus:
            raise
        return []


def _find_unnumbered_gpus(host: Host) -> list[UnnumberedGpu]:
    # Only requests that cannot be met ask for these.
    from amdgpu_discovery.discover import find_unnumbered_gpus

    return find_unnumbered_gpus(host)


def _find_gpus(host: Host) -> list[Gpu]:
    # Only requests that say what is needed ask for more than where GPUs are.
    from amdgpu_discovery.discover import find_gpus

    return find_gpus(host)
