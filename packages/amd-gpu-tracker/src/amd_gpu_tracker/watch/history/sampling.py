"""The sample that a timer takes: how busy the GPUs of each running reservation are, and how much memory it uses."""

from __future__ import annotations

from collections.abc import Iterable

from amd_gpu_tracker.book.history import SAMPLES, open_path, read_begun, write_begun
from amd_gpu_tracker.book.lease import Lease, since_boot
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.leases.container_names import find_container_image, find_pod_title
from amd_gpu_tracker.watch.history.used import SampleSums, parse_sums
from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage
from amdgpu_discovery.untrusted.plain_json import loads

LONGEST_SAMPLED_TEXT = 256


def add_sample(book: Book, usage: Usage) -> None:
    """Add a sample to every running reservation, or note the failure."""
    users = _users_by_id(usage.gpus)
    with book.locked():
        for path in book.state.lease_paths():
            lease = book.state.read_lease(path)
            if lease is not None:
                _add(book.state, path, lease, users.get(lease.container_id, []))


def _add(state: State, lease_path: str, lease: Lease, users: Iterable[GpuUser]) -> None:
    found = read_begun(open_path(state.history_directory, lease_path))
    if found is None:
        return
    month, text = found
    sample = _next_sample(_parse(text), lease, list(users))
    write_begun(state.history_directory, lease_path, month, f"{text.partition(SAMPLES)[0]}{sample.as_text()}")


def _parse(text: str) -> SampleSums | None:
    """Return the sums of earlier samples in a line; None if there are none, or if they cannot be read."""
    try:
        return parse_sums(loads(f"{text}}}".encode())) if SAMPLES in text else None
    except (RecursionError, ValueError):
        return None


def _next_sample(before: SampleSums | None, lease: Lease, users: list[GpuUser]) -> SampleSums:
    busy = sum(min(100, sum(process.busy_percent or 0 for process in user.processes)) for user in users)
    name = next((user.name for user in users if user.name), "")
    # The image and the pod stay the same as long as the container is alive.
    sums = before or SampleSums(
        last=0.0,
        looks=0,
        busy_sum=0.0,
        peak_bytes=0,
        image=find_container_image(lease)[:LONGEST_SAMPLED_TEXT],
        pod=find_pod_title(lease)[:LONGEST_SAMPLED_TEXT],
    )
    return sums.replace(
        last=round(since_boot(), 2),
        looks=sums.looks + 1,
        busy_sum=round(sums.busy_sum + busy / 100 / max(1, len(lease.gpus)), 4),
        peak_bytes=max(sums.peak_bytes, sum(user.vram_bytes for user in users)),
        name=sums.name or name[:LONGEST_SAMPLED_TEXT],
    )


def _users_by_id(gpus: Iterable[GpuUsage]) -> dict[str, list[GpuUser]]:
    found: dict[str, list[GpuUser]] = {}
    for gpu in gpus:
        for user in gpu.users:
            # Containers of users have their own leases, which are not recorded.
            if user.container_id and user.user is None:
                found.setdefault(user.container_id, []).append(user)
    return found
