"""The first rule on a host: GPUs are tracked and exclusive before anyone may reserve one."""

from __future__ import annotations

from collections.abc import Iterator

from amd_device_spec.slurm.conf import GRES_CONF, SLURM_CONF, find_conf
from amd_gpu_sharing.failure import SOCKET_UNIT
from amd_gpu_sharing.rules import units
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.book.policy import EXCLUSIVE
from amd_gpu_tracker.cli import CommandProgram, enable_tracker, in_brackets, print_change
from amd_gpu_tracker.enabled import POLICY_FILE, may_be_tracking
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus

# The kubelet's directory, also that of k3s and RKE2; and that of MicroK8s.
KUBELET = ("/var/lib/kubelet", "/var/snap/microk8s/common/var/lib/kubelet")
MAKE_EXCLUSIVE = "'sudo amd-ctk gpu-tracker GPUS exclusive' gives each of these GPUs one job at a time"


def is_never_tracked(host: Host) -> bool:
    """Return whether the tracker of a host was never enabled, and never disabled by an administrator."""
    return host.stat(POLICY_FILE) is None and not may_be_tracking(host)


def prepare_host(program: CommandProgram, *, keeps_modes: bool) -> Iterator[str]:
    """Enable the tracker, make GPUs exclusive, and let the service listen; yield what else to say.

    In this order, and before the rule is written, so that an interruption never lets two people have one GPU.
    """
    host = program.host
    enable_tracker(host, program.follow_switch)
    if note := find_reason_to_keep_modes(program, keeps_modes=keeps_modes):
        yield note
    else:
        print_change(Tracker(host, lock=CommandLock).set_accessibility("all", exclusive=True), EXCLUSIVE)
    if not units.enable(host) and host.is_this_machine:
        print(f"{SOCKET_UNIT} has been enabled", flush=True)


def preview_host(program: CommandProgram, *, keeps_modes: bool) -> Iterator[str]:
    """Yield a sentence for each step of `prepare_host` but the service's, and change nothing."""
    numbers = [gpu.number for gpu in locate_gpus(program.host)]
    yield "GPU Tracker would be enabled"
    exclusive = f"GPUs {in_brackets(numbers)} would be made exclusive, unless several containers are using them"
    yield find_reason_to_keep_modes(program, keeps_modes=keeps_modes) or exclusive


def find_reason_to_keep_modes(program: CommandProgram, *, keeps_modes: bool) -> str:
    """Return why the GPUs stay shared, as a sentence; "" if nothing else gives them out."""
    if keeps_modes:
        return f"GPUs stay shared: {MAKE_EXCLUSIVE}"
    givers = [*_find_givers(program.host), *program.find_givers()]
    return f"GPUs stay shared, because {' and '.join(givers)} may give them out: {MAKE_EXCLUSIVE}" if givers else ""


def find_gap(host: Host) -> str:
    """Return why a first rule may not do what its administrator expects on a host that was tracked before, or ""."""
    policy = Tracker(host).book.state.read_policy()
    if not policy.enabled:
        return "the GPU Tracker is disabled, so nobody gets a GPU: run 'sudo amd-ctk gpu-tracker enable'"
    return "" if policy.exclusive_keys else f"all GPUs are shared: {MAKE_EXCLUSIVE}"


def _find_givers(host: Host) -> Iterator[str]:
    if any(host.stat(path) for path in KUBELET):
        yield "Kubernetes"
    if find_conf(host, GRES_CONF) or find_conf(host, SLURM_CONF):
        yield "Slurm"
