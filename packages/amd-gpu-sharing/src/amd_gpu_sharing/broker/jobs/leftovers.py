"""Look at the GPUs of leases that have ended, before others get them. The service pays for this, no container start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from amd_gpu_sharing.broker.jobs.child import Children
from amd_gpu_sharing.broker.jobs.job_processes import find_left
from amd_gpu_sharing.broker.jobs.journal import Journal, log_of
from amd_gpu_tracker.book.drains import Drain, read_drains
from amd_gpu_tracker.book.job_ids import name_of, owner_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import Lease, ProcessId
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.leftovers import describe_dirt, end_left, recheck, record_dirty
from amd_gpu_tracker.claims.sick import record_sick
from amd_gpu_tracker.leases.use import GpuProcess, find_gpu_processes
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.health.reading import read_health


class Leftovers:
    """Finds what ended jobs have left on their GPUs.

    Attributes:
        log: Where the findings go.
        rules: The administrator's rules, which may give sick and dirty GPUs out.
        cleans: Whether processes that are left are ended.
    """

    def __init__(self, book: Book, log: Journal, children: Children) -> None:
        self._book, self._state, self.log, self._children = book, book.state, log, children
        self.rules: ChoiceRules = NO_RULES
        self.cleans = False
        # Leases that have ended, but not all of whose GPUs are given back: by key.
        self._unlooked: dict[tuple[str, str], Lease] = {}

    def look(self, ended: Iterable[Lease], living: Sequence[Lease]) -> bool:
        """Look at the GPUs of `ended` leases; return whether one of them must not be given out."""
        if self._state.is_rootless:
            return False
        self._unlooked.update({each.key: each for each in ended})
        over = [each for each in self._unlooked.values() if not kind_of(each).goes_on(living)]
        found: list[Drain] = []
        for each in over:
            del self._unlooked[each.key]
            try:
                found += self._look_at(each)
            except (ToolkitError, OSError) as problem:
                self.log("not looked at", f"{each.container_id}: {problem}")
        return bool(found)

    def recheck(self) -> bool:
        """Drop the records of GPUs that are clean by now; return whether there was one."""
        clean = recheck(self._book, gives_dirty=self.rules.gives_dirty)
        for each in clean:
            self.log("clean", f"{each.key}, after {each.job}", job=name_of(each.job), user=owner_of(each.job))
        return bool(clean)

    def _look_at(self, lease: Lease) -> list[Drain]:
        gpus = [gpu for gpu in find_gpus(self._state.host) if gpu.key in lease.gpus]
        self._ask_driver(gpus)
        if self.rules.gives_dirty:
            return []
        found = describe_dirt(self._state, lease, self._find_left(lease, gpus))
        if not found:
            return []
        record_dirty(self._book, found)
        reasons = "; ".join(dict.fromkeys(each.reason for each in found))
        log_of(self.log, lease, self._state.host)("dirty", f"{lease.container_id}: {reasons}")
        for each in found if self.cleans else ():
            self._children.start(partial(end_left, 0, each, self._book.processes))
        return found

    def _find_left(self, lease: Lease, gpus: Sequence[Gpu]) -> dict[str, dict[ProcessId, GpuProcess]]:
        """Return the processes of an ended lease that still use its GPUs, by the key of the GPU."""
        users = find_gpu_processes(self._state.host, gpus)
        pids = {each.pid for processes in users.values() for each in processes if each.pid}
        left = {each.pid: each for each in find_left(lease, pids, self._book.processes)} if pids else {}
        return {gpu.key: {left[each.pid]: each for each in users[gpu.number] if each.pid in left} for gpu in gpus}

    def _ask_driver(self, gpus: Iterable[Gpu]) -> None:
        """Record GPUs whose driver gives them up. One that is withheld already is not asked: it may not answer."""
        withheld = {each.key for each in read_drains(self._state.host)}
        asked = {str(gpu.pci_address): gpu.key for gpu in gpus if gpu.key not in withheld}
        health = read_health(self._state.host, list(asked), with_errors=False, limits=self.rules.limits)
        seen = {asked[address]: each for address, each in health.items() if each.is_known}
        record_sick(self._book, seen, with_errors=False, gives_sick=self.rules.gives_sick)
