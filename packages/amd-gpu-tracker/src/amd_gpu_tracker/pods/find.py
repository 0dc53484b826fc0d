"""The GPUs that kubelet has given to pods, also to pods whose containers have not started yet."""

from __future__ import annotations

import os
import posix
import time

from amd_gpu_tracker.book.state import KUBELET_SOCKET
from amd_gpu_tracker.leases.pod_device import PodDevice
from amd_gpu_tracker.pods.pod_resources import parse_pods
from amd_gpu_tracker.pods.unary_call import CallFailed, call
from amdgpu_discovery.driver.drm import DRM_CLASS
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amdgpu_discovery.host import Host

LIST = "/v1.PodResourcesLister/List"
CDI_NAME = "amd.com/gpu="
KEPT_SECONDS = 2.0
FAILED_SECONDS = 30.0
MOST_NOTES = 8


class KubeletPods:
    """The pods of a host, asked for at most every KEPT_SECONDS. Without a kubelet, or without root, there are none."""

    def __init__(self, host: Host, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._host, self._clock = host, clock
        self._ask_at = 0.0
        self._pods: dict[str, PodDevice] = {}
        self._unknown: tuple[PodDevice, ...] = ()
        self._problem = ""

    def by_gpu(self) -> Mapping[str, PodDevice]:
        """Return the pod of each GPU that kubelet has given away, by `GpuLocation.key`."""
        if self._clock() < self._ask_at:
            return self._pods
        self._pods, self._unknown, self._problem = {}, (), ""
        path = self._host.path(KUBELET_SOCKET)
        if posix.geteuid() or not os.path.lexists(path):
            return self._pods
        try:
            devices = parse_pods(call(path, LIST))
        except (CallFailed, ValueError) as problem:
            self._problem = printable(str(problem))
            devices = []
        # The service must not wait for a kubelet that hangs again and again.
        self._ask_at = self._clock() + (FAILED_SECONDS if self._problem else KEPT_SECONDS)
        by_name = _names_of(self._host)
        self._pods = {by_name[each.device]: each for each in devices if each.device in by_name}
        self._unknown = tuple(each for each in devices if each.device not in by_name)
        return self._pods

    def notes(self) -> list[str]:
        """Return sentences about devices that are none of this host's GPUs, and about a kubelet that did not answer."""
        notes = [f"pod {each.title} has {each.device}, which is none of this host's GPUs" for each in self._unknown]
        problem = [f"kubelet does not tell which pods have GPUs: {self._problem}"] if self._problem else []
        return [*problem, *notes[:MOST_NOTES]]


def _names_of(host: Host) -> dict[str, str]:
    """Return the keys of GPUs by the ids that device plugins and DRA drivers give them.

    They are the names of the devices of render nodes: PCI addresses, and `amdgpu_xcp_5` for later partitions.
    """
    found: dict[str, str] = {}
    for gpu in locate_gpus(host):
        device = os.path.realpath(host.path(f"{DRM_CLASS}/renderD{gpu.render_minor}/device"))
        found[os.path.basename(device)] = gpu.key
        found[f"{CDI_NAME}{gpu.number}"] = gpu.key
        if gpu.partition_total == 1:
            found[f"{CDI_NAME}{gpu.pci_address}"] = gpu.key
    return found
