"""Check that the host's GPUs are those that are tracked, once for each state of the driver and of the policy.

A lost GPU does not make the others unusable; `matching` finds which one is lost.

Partition modes and ids are two dozen files on a host with eight GPUs, and reading them takes longer than the rest of a
claim. They change only together with what KFD shows. Another compute partition makes new nodes and increments KFD's
generation. For another memory partition or board, the driver is unloaded, and its directories are new when it returns
(drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
"""

from __future__ import annotations

from amd_gpu_tracker.enabled import POLICY_FILE
from amdgpu_discovery.driver.kfd_topology import TOPOLOGY, read_generation
from amdgpu_discovery.errors import FileError, ToolkitError
from amdgpu_discovery.files import read_file, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.book.matching import Match
    from amd_gpu_tracker.book.policy import Policy, TrackedGpu
    from amd_gpu_tracker.book.state import State
    from amdgpu_discovery.gpu import GpuLocation


def take_stamp(state: State, boot_id: str) -> bytes:
    """Return a value that differs for every state of the driver and the policy, b"" if it cannot be computed.

    Take it before reading the policy, so that a change in between leads to another check.
    """
    nodes = state.host.stat(f"{TOPOLOGY}/nodes")
    policy = state.host.stat(POLICY_FILE)
    generation = read_generation(state.host)
    if nodes is None or policy is None or not generation:
        return b""
    version = f"{policy.st_dev} {policy.st_ino} {policy.st_size} {policy.st_mtime_ns}"
    return f"{boot_id} {nodes.st_dev} {nodes.st_ino} {generation} {version}\n".encode()


def require_tracked_gpus(
    state: State, policy: Policy, stamp: bytes, wanted: Sequence[GpuLocation], *, requests: Sequence[str] = ()
) -> Policy:
    """Return the policy for the current GPUs of the host. The caller holds the lock.

    GpusChanged if the policy is for other GPUs. NumbersChanged if the `requests` name a number that meant another
    GPU when GPUs were tracked, or that means a lost one. `wanted` are GPUs that were located before the lock was taken;
    meanwhile the administrator may have repartitioned them and made a policy for that.
    """
    numbers = {gpu.key: number for number, gpu in enumerate(policy.gpus) if not gpu.lost_since}
    keys = [gpu.key for gpu in wanted]
    is_known = all(
        key in numbers and _has_partitions(gpu, policy.gpus[numbers[key]])
        for key, gpu in zip(keys, wanted, strict=True)
    )
    if is_known and stamp and stamp == _read_stamp(state):
        if [numbers[key] for key in keys] == [gpu.number for gpu in wanted]:
            return policy
        # The numbers differ only while a GPU is lost.
        from amd_gpu_tracker.book.numbers import any_by_number

        if not any_by_number(requests):
            return policy
    return _recheck(state, policy, stamp, wanted, requests)


def _has_partitions(gpu: GpuLocation, tracked: TrackedGpu) -> bool:
    return gpu.partition_total == tracked.partition_total


def match_wanted(
    state: State, policy: Policy, gpus: Sequence[GpuLocation], wanted: Sequence[GpuLocation], requests: Sequence[str]
) -> Match:
    """Compare the policy with `gpus`, which are those of the host. Errors as `require_tracked_gpus`."""
    from amd_gpu_tracker.book.matching import match_gpus
    from amd_gpu_tracker.errors import GpusChanged

    match = match_gpus(state.host, policy, gpus)
    there = {gpu.key: gpu for gpu in match.policy.gpus if not gpu.lost_since}
    if not all(gpu.key in there and _has_partitions(gpu, there[gpu.key]) for gpu in wanted):
        raise GpusChanged
    if match.lost or [gpu.key for gpu in match.policy.gpus] != [gpu.key for gpu in gpus]:
        from amd_gpu_tracker.book.numbers import require_same_numbers

        require_same_numbers(match, gpus, requests)
    return match


def _recheck(
    state: State, policy: Policy, stamp: bytes, wanted: Sequence[GpuLocation], requests: Sequence[str]
) -> Policy:
    from amdgpu_discovery.numbering import hidden_numbers, locate_gpus

    gpus = locate_gpus(state.host)
    match = match_wanted(state, policy, gpus, wanted, requests)
    # Only if nothing is hidden, because what is written also counts for processes that may use more GPUs.
    if stamp and not hidden_numbers(gpus):
        _record(state, policy, match, stamp)
    return match.policy


def _record(state: State, policy: Policy, match: Match, stamp: bytes) -> None:
    """Record the result: in the policy if GPUs are lost, new or moved; otherwise a stamp that nothing has changed."""
    if match.policy == policy or state.is_rootless:
        _write_stamp(state, stamp)
        return
    from amd_gpu_tracker.book.unrecorded import POLICY, clear_failure, note_failure

    try:
        if match.moved and state.has_drains:
            from amd_gpu_tracker.book.drains import move_drains

            move_drains(state.host, match.moved)
        # This changes the stamp, which the next claim writes.
        state.write_policy(match.policy)
    except ToolkitError as error:  # A full disk: the next claim looks again.
        note_failure(state.run_directory, POLICY, error.message)
        return
    clear_failure(state.run_directory, POLICY)


def _read_stamp(state: State) -> bytes:
    try:
        return read_file(state.stamp_path)
    except OSError:
        return b""


def _write_stamp(state: State, stamp: bytes) -> None:
    try:
        replace_file(state.stamp_path, stamp, mode=0o644)
    except FileError:  # A full disk: the next claim looks again.
        return
