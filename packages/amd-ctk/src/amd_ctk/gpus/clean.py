"""`gpu check` and `gpu clean`: whether the next job finds a GPU as it should be, and the end of what the last one left.

Nothing here resets a GPU: amdgpu resets all GPUs of an XGMI hive together, and other people may use them.
"""

from __future__ import annotations

import os
import time

from amd_ctk.gpus.listing import find_listed_gpus, tracker_with_rules
from amd_device_spec.requested import select_requested
from amd_gpu_tracker import refuse_old_numbers
from amd_gpu_tracker.errors import NotPermitted
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.tables.models import PCI_DEVICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker import GpuState, Tracker
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

LOOK_AGAIN_SECONDS = 1.0
# In these states, the next job finds a GPU as its last one did.
USUAL = ("free", "reserved", "draining", "drained", "suspect")
# The targets of GPUs with XGMI links. Without a hive, it is unknown which others a reset would reach.
XGMI_TARGETS = ("gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
# MI210, MI300X, MI325X, MI350X and MI355X, V520 and V620, as virtual functions inside a virtual machine.
VIRTUAL_IDS = (0x7410, 0x74B5, 0x74B9, 0x74BD, 0x75B0, 0x75B3, 0x7362, 0x73AE)
NO_POD = "drain this node in Kubernetes first"
NOT_WITHOUT = "drain these GPUs, and wait until nothing uses them"


class NotResettable(ToolkitError):
    """A reset of this GPU would, or might, take GPUs from others."""


def check_gpus(host: Host, request: str, *, seconds: float, as_json: bool) -> bool:
    """Print whether each GPU of a request is clean, for up to some `seconds` until all are; return whether they are."""
    numbers = [gpu.number for gpu in _select(host, find_listed_gpus(host), request)]
    tracker = tracker_with_rules(host)
    end = time.monotonic() + seconds
    while True:
        states = [gpu for gpu in tracker.states() if gpu.number in numbers and not gpu.is_lost]
        are_clean = not any(map(_problem, states))
        if are_clean or time.monotonic() >= end:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    print(_as_json(states) if as_json else "\n".join(map(_sentence, states)))
    return are_clean


def clean_gpus(host: Host, request: str) -> bool:
    """End what ended jobs have left on the GPUs of a request, and check them; NotPermitted without root."""
    gpus = _select(host, find_listed_gpus(host), request)
    for each in tracker_with_rules(host).gpus.end_left(gpus):
        for pid in each.ended:
            print(f"GPU {each.number}: process {pid} of the ended job {each.job} has ended")
        for pid in each.going_on:
            print(
                f"GPU {each.number}: process {pid} of the ended job {each.job} goes on: it is another user's or hangs"
            )
    return check_gpus(host, request, seconds=0, as_json=False)


def print_reset(host: Host, request: str) -> None:
    """Print the command that resets the GPUs of a request, which root can type. NotResettable; NotPermitted."""
    if os.geteuid():
        raise NotPermitted("only root sees the processes and pods of others", hint="run the command with sudo")
    gpus = find_listed_gpus(host)
    tracker = tracker_with_rules(host)
    states = {gpu.number: gpu for gpu in tracker.states() if not gpu.is_lost}
    if notes := tracker.pod_notes():
        raise NotResettable(f"a pod may have a GPU that a reset reaches: {notes[0]}", hint=NO_POD)
    for gpu in _select(host, gpus, request):
        _require_alone(host, gpu, _reset_with(gpu, gpus), states, tracker)
        print(f"sudo amd-smi reset --gpureset --gpu {gpu.pci_address}")


def _select(host: Host, gpus: Sequence[Gpu], request: str) -> list[Gpu]:
    """Return the GPUs of a request; NumbersChanged if its numbers were other GPUs' before one was lost."""
    refuse_old_numbers(host, [request])
    return select_requested(host, gpus, request)


def _reset_with(gpu: Gpu, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that a reset of one reaches: those of its hive and its board."""
    hive = [each for each in gpus if gpu.xgmi_hive is not None and each.xgmi_hive == gpu.xgmi_hive]
    addresses = {each.pci_address for each in (gpu, *hive)}
    return [each for each in gpus if each.pci_address in addresses]


def _require_alone(host: Host, gpu: Gpu, reached: Sequence[Gpu], states: dict[int, GpuState], tracker: Tracker) -> None:
    if gpu.is_apu:
        raise NotResettable(f"GPU {gpu.number} is a part of the processor", hint="reboot instead")
    is_virtual = host.stat(f"{PCI_DEVICES}/{gpu.pci_address}/physfn") is not None or gpu.device_id in VIRTUAL_IDS
    if is_virtual:
        raise NotResettable(f"GPU {gpu.number} is a virtual function", hint="its host can reset it")
    if gpu.xgmi_hive is None and gpu.gfx_target in XGMI_TARGETS:
        raise NotResettable(f"the XGMI hive of GPU {gpu.number} is unknown", hint="reboot instead")
    for each in reached:
        if problem := _use_of(states[each.number]):
            raise NotResettable(
                f"a reset of GPU {gpu.number} reaches GPU {each.number}, which {problem}", hint=NOT_WITHOUT
            )
    numbers = {each.number for each in reached}
    if waiting := [ticket.name for ticket in tracker.waiting() if numbers.intersection(ticket.among)]:
        raise NotResettable(f"the job {waiting[0]} waits for a GPU that a reset reaches", hint="see 'amd-ctk queue'")


def _use_of(gpu: GpuState) -> str:
    if gpu.containers:
        return "is reserved"
    if gpu.pod:
        return f"kubelet has given to pod {gpu.pod}"
    if gpu.processes:
        return f"process {gpu.processes[0].pid} uses"
    return "" if gpu.drained is not None else "is not drained"


def _problem(gpu: GpuState) -> str:
    """Return why the next job would not find a GPU as it should be; "" if it would. Who has it now does not count."""
    if gpu.state not in USUAL:
        return gpu.reason or gpu.state
    return gpu.sick or gpu.dirty


def _sentence(gpu: GpuState) -> str:
    if problem := _problem(gpu):
        return f"{gpu.name} is {gpu.state}: {problem}"
    if gpu.containers or gpu.pod:
        return f"{gpu.name} is reserved, so what is on it belongs to its holder"
    return f"{gpu.name} is clean"


def _as_json(states: Sequence[GpuState]) -> str:
    import json

    return json.dumps({"gpus": list(map(_fields, states))}, indent=2)


def _fields(gpu: GpuState) -> dict[str, object]:
    return {
        "number": gpu.number,
        "pci_address": gpu.pci_address,
        "is_clean": not _problem(gpu),
        "state": gpu.state,
        "reason": _problem(gpu) or None,
        "processes": [process.as_dict() for process in gpu.processes],
    }
