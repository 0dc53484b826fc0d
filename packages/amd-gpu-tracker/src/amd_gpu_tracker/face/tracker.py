"""The library behind the commands: the GPU Tracker by the names its users know."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.lock import LOCK_SECONDS, KernelLock, LibraryLock
from amd_gpu_tracker.book.state import KUBELET_SOCKET, State, open_state
from amd_gpu_tracker.companion import find_line, find_sharing, require_sharing
from amd_gpu_tracker.errors import ContainerRunning
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from amd_gpu_tracker.book.refusal_log import Refusal
    from amd_gpu_tracker.claims.accessibility import AccessibilityChange
    from amd_gpu_tracker.claims.adoption import Notify
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.claims.handover import Reservation
    from amd_gpu_tracker.face.recording import Recording
    from amd_gpu_tracker.face.tracked_gpus import TrackedGpus
    from amd_gpu_tracker.face.tracking import LastingSettings, Tracking
    from amd_gpu_tracker.leases.faults import StateFaults
    from amd_gpu_tracker.leases.jobs import RunningJob
    from amd_gpu_tracker.leases.pod_device import PodDevice
    from amd_gpu_tracker.leases.status import ContainerUse, OwnedLease, Status
    from amd_gpu_tracker.pods.find import KubeletPods
    from amd_gpu_tracker.watch.history.used import Used
    from amd_gpu_tracker.watch.states.state import GpuState
    from amd_gpu_tracker.watch.usage.reader import UsageReader
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.health.reading import Health
    from amdgpu_discovery.host import Host

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)


def ignore(_: str) -> None:
    """Ignore a message."""


def do_nothing() -> None:
    """Do nothing."""


class Tracker:
    """Tracks which GPUs of a host are in use, and by whom.

    Every operation is one transaction: an interruption never leaves half of it. If an operation cannot be done, it
    raises a ToolkitError; the classes are in `amd_gpu_tracker.errors`.
    """

    def __init__(
        self,
        host: Host,
        *,
        processes: Processes | None = None,
        lock_timeout: float = LOCK_SECONDS,
        rules: ChoiceRules = NO_RULES,
        lock: type[KernelLock] = LibraryLock,
    ) -> None:
        """Track the GPUs of `host`; LockTimeout is raised after `lock_timeout` seconds.

        `processes` finds out which processes are running; by default, it reads those of this machine. `rules` are the
        administrator's settings for choices, such as the groups of GPUs. `lock` decides how to wait for the lock:
        `CommandLock` is fairer, but works only in the main thread of a program that uses no alarms itself.
        """
        self._rules = rules
        self._host = host
        self._processes = processes or Processes()
        self._state = open_state(host, os.environ)
        self._kubelet: KubeletPods | None = None
        self._lock = lambda path: lock(path, lock_timeout)
        self._book: Book | None = None

    @property
    def settings(self) -> LastingSettings:
        """Return the settings about users and containers, which outlive `reset`."""
        from amd_gpu_tracker.face.tracking import LastingSettings

        return LastingSettings(self.book)

    @property
    def recording(self) -> Recording:
        """Return the records of reservations and of the use of GPUs, and the metrics."""
        from amd_gpu_tracker.face.recording import Recording

        return Recording(self.book)

    @property
    def gpus(self) -> TrackedGpus:
        """Return the numbers of the tracked GPUs, and which of them are withheld."""
        from amd_gpu_tracker.face.tracked_gpus import TrackedGpus

        return TrackedGpus(self.book)

    @property
    def host(self) -> Host:
        """Return the host whose GPUs it tracks."""
        return self._host

    @property
    def book(self) -> Book:
        """Return the reservations, for amd-gpu-sharing."""
        if self._book is None:
            # Imported here, because most lists need only the files.
            from amd_gpu_tracker.claims.claim import Book

            self._book = Book(self._state, self._processes, self._lock, self._find_pods)
        return self._book

    @property
    def rules(self) -> ChoiceRules:
        """Return the administrator's settings for choices."""
        return self._rules

    def is_enabled(self) -> bool:
        """Return whether GPUs are tracked."""
        self._take_over()
        return self._state.read_policy().enabled

    def enable(self, *, tell: Notify = ignore, when_enabled: Callable[[], None] = do_nothing) -> bool:
        """Start tracking, with all GPUs shared; return False if the tracker was enabled already.

        Containers that are already running are adopted. `tell` is called with a message for each container that has
        GPUs, and for each one whose GPUs could not be determined. `when_enabled` is called before the search for
        containers: it must set up everything through which engines' containers claim GPUs from now on, such as the
        hooks in CDI specs.
        """
        self._take_over(tell)
        return self._tracking.enable(notify=tell, when_enabled=when_enabled)

    def disable(self) -> bool:
        """Stop tracking and forget all reservations; return False if the tracker was disabled already.

        Nodes that only holders of a reservation could open are given back to their groups.
        """
        return self.is_enabled() and self._tracking.disable()

    def reset(self, *, force: bool = False, tell: Notify = ignore) -> bool:
        """Make all GPUs shared and detect their users again; return whether the tracker is enabled.

        Containers and jobs that are provably running keep their GPUs, unless `force` is set. `tell` is called with a
        message for each of them, and otherwise as for `enable`. This also repairs state that cannot be read; nothing is
        known about its content then, so the tracker is enabled afterwards.
        """
        return self._tracking.reset(force=force, notify=tell)

    def initialize(self, *, tell: Notify = ignore) -> None:
        """Take over the state of AMD's original toolkit, once; existing state is kept.

        `tell` is as for `enable`.
        """
        self._take_over(tell)

    def set_accessibility(self, request: str, *, exclusive: bool) -> AccessibilityChange:
        """Make the GPUs that `request` names or chooses exclusive or shared; GPUs of several containers stay shared.

        With `exclusive`, only one container at a time can have them; without it, any number can. StateError if a user's
        record is damaged, so that a rootless container may be using one of them.
        """
        # This method and those below import what they need: `cdi generate` asks only whether GPUs are tracked.
        from amd_gpu_tracker.claims.accessibility import change_accessibility

        self._take_over()
        return change_accessibility(self.book, request, exclusive=exclusive, rules=self._rules)

    def preview_accessibility(self, request: str, *, exclusive: bool) -> AccessibilityChange:
        """Return what `set_accessibility` would do now with the same `request` and `exclusive`, and change nothing."""
        from amd_gpu_tracker.claims.accessibility import preview_accessibility

        return preview_accessibility(self.book, request, exclusive=exclusive, rules=self._rules)

    def drain(self, request: str, *, reason: str = "", until: float = 0) -> tuple[int, ...]:
        """Stop giving out the GPUs that `request` names, and return their numbers; their current users keep them.

        `reason` is shown in each refusal; `until` is the end of the drain in seconds since 1970 (UTC), 0 for no end.
        Raises NotPermitted, RequestError.
        """
        from amd_gpu_tracker.claims.by_name import find_person
        from amd_gpu_tracker.claims.draining import drain

        by = find_person(self._processes) or 0
        return _numbers(drain(self.book, request, reason=reason, until=until, by=by))

    def undrain(self, request: str) -> tuple[int, ...]:
        """Give out the GPUs that `request` names again; return the numbers of those that were drained. RequestError."""
        from amd_gpu_tracker.claims.draining import undrain

        return _numbers(undrain(self.book, request))

    def status(self) -> Status:
        """Return every GPU with its accessibility and the containers that use it. Takes no lock, changes nothing."""
        return self.status_with_leases()[0]

    def status_with_leases(self) -> tuple[Status, list[OwnedLease]]:
        """Return the status and the living leases behind it, each with its user; None for root and the caller."""
        from amd_gpu_tracker.leases.status import read_status_with_leases

        self._take_over()
        return read_status_with_leases(self._state, self._processes)

    def jobs(self) -> list[RunningJob]:
        """Return the jobs and reservations that have GPUs, oldest first."""
        from amd_gpu_tracker.leases.jobs import running_jobs

        return running_jobs(*self.status_with_leases())

    def states(
        self, *, with_errors: bool = True, with_all_processes: bool = True, earlier: Iterable[GpuState] = ()
    ) -> tuple[GpuState, ...]:
        """Return the state of each GPU like `find_states` with the `earlier` findings; for root, record the sick ones.

        Without `with_all_processes`, it names those that compute; the others only if a GPU is in use by none of these.

        From then on, starts refuse these GPUs, until root calls this `with_errors` and finds them healthy, or until a
        reboot. If the record cannot be written, starts do not refuse them. For root, this also looks again at dirty
        GPUs.
        """
        from amd_gpu_tracker.watch.states.find import find_states

        if self._state.has_drains and not self._state.is_rootless:
            self._recheck_dirty()
        limits = self._rules.limits
        return find_states(
            self._host,
            processes=self._processes,
            with_errors=with_errors,
            with_all_processes=with_all_processes,
            earlier=earlier,
            limits=limits,
            pods=self._find_pods(),
            note=None if self._state.is_rootless else lambda seen: self._keep_sick(seen, with_errors=with_errors),
        )

    def _keep_sick(self, health: Mapping[str, Health], *, with_errors: bool) -> None:
        from amd_gpu_tracker.claims.sick import record_sick

        record_sick(self.book, health, with_errors=with_errors, gives_sick=self._rules.gives_sick)

    def pod_notes(self) -> list[str]:
        """Return sentences about pods: devices that are none of this host's GPUs, and why kubelet did not answer."""
        return self._kubelet.notes() if self._kubelet else []

    def _find_pods(self) -> Mapping[str, PodDevice]:
        """Return the pods to which kubelet has given GPUs, by `GpuLocation.key`; none for users."""
        if self._kubelet is None and not self._state.is_rootless and self._host.stat(KUBELET_SOCKET) is not None:
            from amd_gpu_tracker.pods.find import KubeletPods

            self._kubelet = KubeletPods(self._host)
        return self._kubelet.by_gpu() if self._kubelet else {}

    def _recheck_dirty(self) -> None:
        from amd_gpu_tracker.claims.leftovers import recheck

        # A file that cannot be understood, or a full disk, must not hide the states; `doctor` reports it.
        try:
            recheck(self.book, gives_dirty=self._rules.gives_dirty)
        except ToolkitError:
            return

    def usage_looks(self) -> UsageReader:
        """Return an object that reads the usage of the GPUs: memory, processes, containers and load."""
        from amd_gpu_tracker.watch.usage.reader import UsageReader

        self._take_over()
        return UsageReader(self._state, self._processes, self.book.lock)

    def history(self, *, since: float, until: float) -> Iterator[Used | None]:
        """Yield the reservations that overlap the time from `since` to `until`, and None for each unreadable line.

        Both are in seconds since 1970 (UTC).
        """
        from amd_gpu_tracker.watch.history.files import read_history

        return read_history(self._state, since=since, until=until)

    def refusals(self) -> list[Refusal]:
        """Return the latest refusals, oldest first: those of root's containers and those of the caller's own."""
        from amd_gpu_tracker.book.refusal_log import read_refusals

        states = {each.run_directory: each for each in (State(self._state.host), self._state)}
        found = [refusal for each in states.values() for refusal in read_refusals(each)]
        return sorted(found, key=lambda refusal: refusal.time)

    def reserve(self, request: str, *, name: str = "", pid: int | None = None, vram_mb: int = 0) -> Reservation:
        """Reserve the GPUs of a `request`, such as `0,2` or `auto:1`, until the process `pid` ends.

        `name` is any name that no other reservation has, by default a generated one; `pid` is by default the calling
        process. In a `with` statement, the GPUs are released at the end of the block. With `vram_mb`, it is a part of
        each GPU, in MiB: the parts of a GPU are together at most its memory.

        GpusRefused if a GPU is exclusive and in use, if a choice such as `auto:2` finds too few GPUs now, or if other
        jobs wait for these GPUs; nothing is reserved then. RequestError if the host can never meet the request,
        ContainerRunning if this name already has GPUs, TrackerDisabled if the tracker is disabled.
        """
        from amd_gpu_tracker.claims.by_name import hold_by_name

        return hold_by_name(
            self.book,
            name or _new_name(),
            request,
            pid=pid,
            rules=self._rules,
            release=self.release,
            find_wants=self._find_wants,
            vram_mb=vram_mb,
        )

    def preview(
        self, request: str, *, name: str = "", vram_mb: int = 0
    ) -> tuple[Sequence[GpuLocation], dict[str, str]]:
        """Return what `reserve` of this `request`, `name` and `vram_mb` would give now; errors as there."""
        from amd_gpu_tracker.claims.by_name import preview_by_name
        from amd_gpu_tracker.claims.handover import build_environment

        wants = self._find_wants
        gpus = preview_by_name(
            self.book, name or _new_name(), request, rules=self._rules, find_wants=wants, vram_mb=vram_mb
        )
        return gpus, build_environment(gpus, locate_gpus(self._host), "")

    def wait(
        self,
        request: str,
        *,
        name: str = "",
        timeout: float | None = None,
        tell: Notify = ignore,
        vram_mb: int = 0,
    ) -> Reservation:
        """Wait in line, then reserve GPUs as `reserve` does; jobs are served in the order in which they came.

        `request`, `name` and `vram_mb` are as for `reserve`. WaitOver after `timeout` seconds, and when `cancel` is
        called; RequestError at once if the host can never meet the request. `tell` is called with a message about the
        wait. SharingMissing if amd-gpu-sharing is not installed.
        """
        line = require_sharing()
        reservation: Reservation = line.wait_in_line(
            *(self.book, name or _new_name(), request, self._rules),
            timeout=timeout,
            notify=tell,
            release=self.release,
            vram_mb=vram_mb,
        )
        return reservation

    def waiting(self) -> list[Any]:
        """Return the tickets of waiting jobs, in the order in which they came; none without amd-gpu-sharing.

        These are root's jobs, the caller's, and the jobs of all users of the service.
        """
        line = find_line(self._state, State(self._host))
        return line.find_waiting(self.book) if line else []

    def service_problem(self) -> str:
        """Return a sentence if the service that gives GPUs to people has failed, else ""; none without it."""
        sharing = find_sharing()
        return str(sharing.describe_failure(self._host)) if sharing else ""

    def cancel(self, name: str) -> bool:
        """Remove the job `name` from the queue; False if no such job waits.

        NotPermitted if the caller may not cancel it. SharingMissing if amd-gpu-sharing is not installed.
        """
        cancelled: bool = require_sharing().cancel(self.book, name)
        return cancelled

    def release(self, container_id: str) -> tuple[int, ...]:
        """Release the GPUs of a container that is gone, or of the calling process; return their numbers.

        `container_id` is the id of the container or the name of the reservation. ContainerRunning if its processes are
        still running: there is no other way to release them.
        """
        from amd_gpu_tracker.claims.release import release

        released = release(self.book, container_id, creators=(self._processes.myself(),))
        if released.living:
            raise ContainerRunning(f"container {container_id} is still running", hint="stop it first")
        keys = {key for lease in released.dropped for key in lease.gpus}
        return _numbers([gpu for gpu in locate_gpus(self._host) if gpu.key in keys]) if keys else ()

    def container_names(self, uses: Iterable[ContainerUse]) -> dict[str, str]:
        """Return the engines' names of the containers in `uses`, by id; unknown names are left out."""
        from amd_gpu_tracker.leases.container_names import find_container_names

        return find_container_names(uses)

    def faults(self) -> StateFaults:
        """Return the faults of the tracker's own files, and who has which GPU, as far as the files can be read."""
        from amd_gpu_tracker.leases.faults import find_faults

        return find_faults(State(self._host), self._processes)

    def prune(self) -> None:
        """Remove the reservations of root's containers and of processes that are gone."""
        from amd_gpu_tracker.leases.lease_scan import prune_leases

        state = State(self._host)
        with self.book.lock(state.lock_path):
            prune_leases(state, self._processes, state.lease_paths())

    def _take_over(self, tell: Notify = ignore) -> None:
        """Take over the original toolkit's state, if that is still to be done."""
        if self._state.has_former_policy():
            self._tracking.take_over(tell)

    @property
    def _tracking(self) -> Tracking:
        # Most commands do not switch the tracker.
        from amd_gpu_tracker.face.tracking import Tracking

        return Tracking(self.book)

    def _find_wants(self) -> Iterable[Collection[int]]:
        """Return the numbers of the GPUs that each job in line wants."""
        line = find_line(self._state, State(self._host))
        return line.find_wants(self.book) if line else ()


def _new_name() -> str:
    """Return a name for a reservation of this process that no other reservation has."""
    return f"python-{os.getpid()}-{os.urandom(4).hex()}"


def _numbers(gpus: Sequence[GpuLocation]) -> tuple[int, ...]:
    return tuple(gpu.number for gpu in gpus)
