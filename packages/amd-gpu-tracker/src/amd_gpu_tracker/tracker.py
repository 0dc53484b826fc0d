"""The GPU Tracker by the names its users know: the library behind the commands."""

from __future__ import annotations

import os
import time

from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import ContainerRunning, NotPermitted, StateError, TrackerDisabled
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.ignored_users import read_ignored_users, write_ignored_users
from amd_gpu_tracker.records.lock import TIMEOUT_SECONDS, KernelLock, LibraryLock
from amd_gpu_tracker.records.matching import read_tracked_gpus
from amd_gpu_tracker.records.policy import Policy
from amd_gpu_tracker.records.refusals import read_refusals
from amd_gpu_tracker.records.state import State, clear, open_state
from amdgpu_discovery.choices.rules import NO_RULES
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.numbering import locate_gpus, require_all_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar, overload

    from amd_gpu_tracker.claims.accessibility import AccessibilityChange
    from amd_gpu_tracker.claims.adoption import Tell
    from amd_gpu_tracker.claims.forgetting import Forgotten
    from amd_gpu_tracker.claims.handover import Reservation
    from amd_gpu_tracker.history.ended import Ended
    from amd_gpu_tracker.history.used import Used
    from amd_gpu_tracker.life.faults import StateFaults
    from amd_gpu_tracker.life.jobs import RunningJob
    from amd_gpu_tracker.life.status import ContainerUse, OwnedLease, Status
    from amd_gpu_tracker.records.lease import Lease
    from amd_gpu_tracker.records.refusals import Refusal
    from amd_gpu_tracker.states.state import GpuState
    from amd_gpu_tracker.usage.looks import UsageLooks
    from amd_gpu_tracker.usage.users import Usage
    from amd_gpu_tracker.waiting.ticket import Ticket
    from amd_gpu_tracker.waiting.tickets import Tickets
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.health.reading import Health
    from amdgpu_discovery.host import Host

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)

# Many times what systemd takes to start the service.
STARTING_SECONDS = 2.0


def keep_quiet(_: str) -> None:
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
        lock_timeout: float = TIMEOUT_SECONDS,
        rules: ChoiceRules = NO_RULES,
        lock: type[KernelLock] = LibraryLock,
    ) -> None:
        """Track the GPUs of `host`; LockTimeout is raised after `lock_timeout` seconds.

        `processes` tells which processes are running; by default, it reads those of this machine. `rules` are the
        administrator's settings for choices, such as the groups of GPUs. `lock` decides how to wait for the lock:
        `CommandLock` is fairer, but works only in the main thread of a program that uses no alarms itself.
        """
        self._rules = rules
        self._host = host
        self._processes = processes or Processes()
        self._state = open_state(host, os.environ)
        self._book = Book(self._state, self._processes, lambda path: lock(path, lock_timeout))

    def is_enabled(self) -> bool:
        """Return whether GPUs are tracked."""
        self._take_over()
        return self._state.read_policy().enabled

    def enable(self, *, tell: Tell = keep_quiet, when_enabled: Callable[[], None] = do_nothing) -> bool:
        """Start tracking, with all GPUs shared; return False if the tracker was enabled already.

        Containers that are already running are adopted. `tell` is called with a message for each container that has
        GPUs, and for each one whose GPUs could not be determined. `when_enabled` is called before the search for
        containers: it must set up everything through which engines' containers claim GPUs from now on, such as the
        hooks in CDI specs.
        """
        self._take_over(tell)
        # Every user may learn that there is nothing to do.
        if self._state.read_policy().enabled:
            return False
        with self._book.locked_by_root():
            if self._state.read_policy().enabled:
                return False
            policy = self._fresh_policy(enabled=True)
            # What an interrupted `disable` left must not come back to life.
            self._state.forget_leases()
            self._state.write_policy(policy)
            self._begin_history()
        when_enabled()
        self._adopt(tell)
        return True

    def disable(self) -> bool:
        """Stop tracking and forget all reservations; return False if the tracker was disabled already.

        Nodes that only holders of a reservation could open are given back to their groups.
        """
        from amd_gpu_tracker.node_access.nodes import give_back

        if not self.is_enabled():
            return False
        with self._book.locked_by_root():
            if not self._state.read_policy().enabled:
                return False
            self._state.write_policy(Policy(**self._lasting()))
            self._state.forget_leases()
        give_back(self._state.host)
        return True

    def reset(self, *, force: bool = False, tell: Tell = keep_quiet) -> bool:
        """Make all GPUs shared and detect their users again; return whether the tracker is enabled.

        Containers and jobs that are provably running keep their GPUs, unless `force` is set. `tell` is called with a
        message for each of them, and otherwise as for `enable`. This also repairs state that cannot be read; nothing is
        known about its content then, so the tracker is enabled afterwards.
        """
        from amd_gpu_tracker.claims.forgetting import keep_living

        self._state.prepare()
        clear(self._state.lock_path)
        with self._book.locked_by_root():
            enabled = self._enabled_as_far_as_known()
            policy = self._fresh_policy(enabled=enabled)
            living = keep_living(self._state, policy, self._processes) if enabled else []
            self._state.clear_files()
            self._state.write_policy(policy)
            kept = {self._state.lease_path(lease.key) for lease in living if not force}
            self._state.forget_leases(but=kept)
            for lease in living:
                if not force:
                    self._state.write_lease(lease)
        if enabled:
            self._adopt(tell)
            self._say_living(living, force=force, tell=tell)
        return enabled

    def forget(self, request: str) -> Forgotten:
        """Forget lost GPUs, and accept the numbers that the other GPUs have now.

        `request` has the previous numbers of the lost GPUs, or is `all`. Raises NotPermitted, RequestError for an item
        that is not a number, and NotDone for a GPU that is not lost.
        """
        from amd_gpu_tracker.claims.forgetting import forget_lost

        return forget_lost(self._book, request)

    def initialize(self, *, tell: Tell = keep_quiet) -> None:
        """Take over the state of AMD's original toolkit, once; existing state is kept.

        `tell` is as for `enable`.
        """
        self._take_over(tell)

    def set_accessibility(self, request: str, *, exclusive: bool) -> AccessibilityChange:
        """Make the GPUs that `request` names or chooses exclusive or shared; GPUs of several containers stay shared.

        With `exclusive`, only one container at a time can have them; without it, any number can. StateError if a user's
        record is damaged, so that a rootless container may be using one of them.
        """
        # Commands load what they need of this and the methods below: `cdi generate` asks only whether GPUs are tracked.
        from amd_gpu_tracker.claims.accessibility import change_accessibility

        self._take_over()
        return change_accessibility(self._book, request, exclusive=exclusive, rules=self._rules)

    def preview_accessibility(self, request: str, *, exclusive: bool) -> AccessibilityChange:
        """Return what `set_accessibility` would do now with the same `request` and `exclusive`, and change nothing."""
        from amd_gpu_tracker.claims.accessibility import preview_accessibility

        return preview_accessibility(self._book, request, exclusive=exclusive, rules=self._rules)

    def drain(self, request: str, *, reason: str = "", until: float = 0) -> tuple[int, ...]:
        """Stop giving out the GPUs that `request` names, and return their numbers; their current users keep them.

        `reason` is shown in each refusal; `until` is the end of the drain in seconds since 1970 (UTC), 0 for no end.
        Raises NotPermitted, RequestError.
        """
        from amd_gpu_tracker.claims.draining import drain

        gpus = drain(self._book, request, reason=reason, until=until, by=_asking_user())
        return tuple(gpu.number for gpu in gpus)

    def undrain(self, request: str) -> tuple[int, ...]:
        """Give out the GPUs that `request` names again; return the numbers of those that were drained."""
        from amd_gpu_tracker.claims.draining import undrain

        return tuple(gpu.number for gpu in undrain(self._book, request))

    def would_drain(self, request: str, *, reason: str = "", until: float = 0) -> tuple[int, ...]:
        """Return the numbers of the GPUs that `drain` would drain or change; RequestError.

        `request`, `reason` and `until` are as for `drain`.
        """
        from amd_gpu_tracker.claims.draining import find_undrained

        return _numbers(find_undrained(self._host, request, reason=reason, until=until))

    def would_undrain(self, request: str) -> tuple[int, ...]:
        """Return the numbers of the GPUs that `undrain` of this `request` would give out again. RequestError."""
        from amd_gpu_tracker.claims.draining import find_drained

        return _numbers(find_drained(self._host, request))

    def without_drained(self, gpus: Sequence[AnyGpu]) -> list[AnyGpu]:
        """Return those of `gpus` that are neither drained nor sick."""
        from amd_gpu_tracker.claims.draining import without_drained

        return without_drained(self._host, gpus)

    def withheld(self, gpus: Iterable[GpuLocation]) -> dict[int, str]:
        """Return, by number, a message for each of `gpus` that is refused because it is drained or sick."""
        from amd_gpu_tracker.claims.draining import say_withheld

        return say_withheld(self._host, gpus)

    def sick(self, gpus: Iterable[GpuLocation]) -> tuple[int, ...]:
        """Return the numbers of those of `gpus` that are withheld because they are sick."""
        from amd_gpu_tracker.records.drains import read_drains

        keys = {each.key for each in read_drains(self._host) if each.is_sick}
        return tuple(gpu.number for gpu in gpus if gpu.key in keys)

    def number_as_tracked(self, gpus: list[AnyGpu]) -> list[AnyGpu]:
        """Return `gpus` with the numbers by which they are tracked, which differ while a tracked GPU is lost."""
        from amd_gpu_tracker.records.numbers import number_as_tracked

        return number_as_tracked(self._host, gpus)

    def lost(self) -> tuple[int, ...]:
        """Return the previous numbers of the tracked GPUs that are lost."""
        from amd_gpu_tracker.records.numbers import find_tracked_numbers

        numbers = find_tracked_numbers(self._host)
        return numbers.lost if numbers else ()

    def close_nodes(self) -> None:
        """Allow only users who have reserved a GPU to open its nodes, also after a reboot; NotPermitted, FileError."""
        from amd_gpu_tracker.broker.opened import find_users
        from amd_gpu_tracker.node_access.nodes import close_nodes

        close_nodes(self._host, find_users(self._host))

    def update_nodes(self) -> None:
        """Allow each user to open the nodes of the GPUs that this user has reserved by now, and no others."""
        from amd_gpu_tracker.broker.opened import follow_leases

        follow_leases(self._host)

    def find_wrong_node(self) -> str:
        """Return a node that users can open without having its GPU, "" if there is none."""
        from amd_gpu_tracker.broker.opened import find_difference

        return find_difference(self._host)

    def require_reservation(self, *, required: bool = True) -> bool:
        """Give containers only the GPUs of reservations, or with `required` false the GPUs that they request.

        Return False if this was set already. TrackerDisabled if the tracker is disabled, NotPermitted.
        """
        return self._set(require_reservation=required)

    def requires_reservation(self) -> bool:
        """Return whether containers get only the GPUs of reservations; False also if the state cannot be read."""
        return bool(self._lasting().get("require_reservation"))

    def restart_grace(self) -> int:
        """Return for how many seconds a container keeps its GPUs until its engine restarts it; StateError."""
        return self._state.read_policy().restart_grace

    def set_restart_grace(self, seconds: int) -> bool:
        """Let restarting containers keep their GPUs for `seconds`, 0 to 3600; False if this was set already.

        TrackerDisabled if the tracker is disabled, NotPermitted.
        """
        return self._set(restart_grace=seconds)

    def is_exclusive_to_pods(self) -> bool:
        """Return whether the containers of a pod share its exclusive GPUs; StateError."""
        return self._state.read_policy().is_exclusive_to_pods

    def set_exclusive_to_pods(self, *, shared: bool = True) -> bool:
        """Allow the containers of a pod to share exclusive GPUs, or forbid it; False if this was set already.

        Running containers keep their GPUs. TrackerDisabled if the tracker is disabled, NotPermitted.
        """
        return self._set(is_exclusive_to_pods=shared)

    def _set(self, **lasting: object) -> bool:
        """Write a setting that outlives `reset` into the policy; return False if it has this value already."""
        with self._book.locked_by_root():
            policy = self._state.read_policy()
            if not policy.enabled:
                raise TrackerDisabled
            changed = policy.replace(**lasting)
            self._state.write_policy(changed)
        return changed != policy

    def _lasting(self) -> dict[str, Any]:
        try:
            return self._state.read_policy().lasting
        except StateError:
            return {}

    def ignored_users(self) -> tuple[int, ...]:
        """Return the users whose reservations are ignored."""
        return tuple(sorted(read_ignored_users(self._host)))

    def ignore_user(self, uid: int, *, ignored: bool = True) -> bool:
        """Ignore the reservations of the user `uid`, or read them again if `ignored` is false.

        Return False if this was set already; NotPermitted for all users but root.
        """
        if (uid in read_ignored_users(self._host)) is ignored:
            return False
        with self._book.locked_by_root():
            before = read_ignored_users(self._host)
            write_ignored_users(self._host, before | {uid} if ignored else before - {uid})
        return True

    def status(self) -> Status:
        """Return every GPU with its accessibility and the containers that use it. Takes no lock, changes nothing."""
        return self.status_with_leases()[0]

    def status_with_leases(self) -> tuple[Status, list[OwnedLease]]:
        """Return the status and the living leases behind it, each with its user; None for root and the caller."""
        from amd_gpu_tracker.life.status import read_status_with_leases

        self._take_over()
        return read_status_with_leases(self._state, self._processes)

    def jobs(self) -> list[RunningJob]:
        """Return the jobs and reservations that have GPUs, oldest first."""
        from amd_gpu_tracker.life.jobs import running_jobs

        status, leases = self.status_with_leases()
        return running_jobs(status, [lease for lease, _ in leases])

    def owners(self) -> list[tuple[str, int | None]]:
        """Return the name and user of each reservation and job that is not being ended; None for an unknown user."""
        from amd_gpu_tracker.broker.keeping import find_owners

        return list(find_owners(self._host))

    def keep(self, name: str, *, owner: int | None, seconds: float) -> float:
        """Extend a reservation or job to `seconds` from now; return the seconds until it ends, 0 if it has no end.

        `name` is its name without the number of its owner, and `owner` that user, None for any. Raises NotDone,
        NotPermitted.
        """
        from amd_gpu_tracker.broker.keeping import keep

        return keep(self._book, name, owner, seconds)[1]

    def ended_by_restart(self) -> list[Ended]:
        """Return the reservations that a restart of this machine ended before their time was over."""
        from amd_gpu_tracker.history.ended import ended_path, read_ended

        state = State(self._host)
        if not os.path.exists(ended_path(state)):
            self._start_service()
        return read_ended(state)

    def _start_service(self) -> None:
        """Wait for the service, if there is one: when it starts, it records the reservations that a restart ended."""
        from amd_gpu_tracker.broker.protocol import find_socket

        if socket := find_socket(self._host):
            from amd_gpu_tracker.broker.client import is_served

            is_served(socket, STARTING_SECONDS)

    def states(self, *, with_errors: bool = True, earlier: Iterable[GpuState] = ()) -> tuple[GpuState, ...]:
        """Return the state of each GPU like `find_states` with the `earlier` findings; for root, record the sick ones.

        From then on, starts refuse these GPUs, until root calls this `with_errors` and finds them healthy, or until a
        reboot. If the record cannot be written, starts do not refuse them.
        """
        from amd_gpu_tracker.states.find import find_states

        limits = self._rules.limits
        return find_states(
            self._host,
            processes=self._processes,
            with_errors=with_errors,
            earlier=earlier,
            limits=limits,
            note=None if self._state.is_rootless else lambda seen: self._keep_sick(seen, with_errors=with_errors),
        )

    def _keep_sick(self, health: Mapping[str, Health], *, with_errors: bool) -> None:
        from amd_gpu_tracker.claims.sickness import keep_sick

        keep_sick(self._book, health, with_errors=with_errors, gives_sick=self._rules.gives_sick)

    def usage_looks(self) -> UsageLooks:
        """Return an object that reads the usage of the GPUs: memory, processes, containers and load."""
        from amd_gpu_tracker.usage.looks import UsageLooks

        self._take_over()
        return UsageLooks(self._state, self._processes, self._book.lock)

    def keep_history(self, *, readers: str = "") -> None:
        """Record every reservation from now on, readable for root and the group `readers`, or `everyone`."""
        from amd_gpu_tracker.history.files import make_history

        make_history(self._state, readers=readers)

    def keeps_history(self, *, readers: str = "") -> bool:
        """Return whether `keep_history` with these `readers` would change nothing."""
        from amd_gpu_tracker.history.files import is_history_for

        return is_history_for(self._state, readers=readers)

    def records_history(self) -> bool:
        """Return whether reservations are recorded."""
        return State(self._host).records_history

    def stop_history(self) -> None:
        """Stop recording reservations; existing records stay."""
        from amd_gpu_tracker.history.files import stop_history

        with self._book.locked():
            stop_history(self._state)

    def take_look(self, *, keep_days: int) -> Usage:
        """Add the current load of the GPUs to the history of their reservations, and return it.

        Months that ended more than `keep_days` days ago are removed.
        """
        from amd_gpu_tracker.history.files import remove_old
        from amd_gpu_tracker.history.sampling import add_look
        from amd_gpu_tracker.usage.screen import READING_SECONDS

        usage = self.usage_looks().look_twice(READING_SECONDS)
        self.settle_history()
        add_look(self._book, usage)
        remove_old(self._state, days=keep_days, now=time.time())
        return usage

    def write_metrics(self, path: str, usage: Usage, states: Sequence[GpuState]) -> None:
        """Write `usage`, `states` and the queue to `path` for Prometheus; if that fails, record the reason."""
        from amd_gpu_tracker.records.state import REFUSALS, REPAIRS, STARTS
        from amd_gpu_tracker.records.unrecorded import METRICS, forget_failure, note_failure
        from amd_gpu_tracker.states.metrics import format_state_metrics
        from amd_gpu_tracker.usage.documents import format_prometheus

        waiting = [ticket.since for ticket in self.waiting()]
        counts = {event: self._state.read_count(event) for event in (STARTS, REFUSALS, REPAIRS)}
        metrics = format_state_metrics(states, counts=counts, waiting_since=waiting, now=time.time())
        try:
            replace_file(path, f"{format_prometheus(usage)}\n{metrics}\n".encode(), mode=0o644)
        except FileError as error:
            note_failure(self._state.run_directory, METRICS, error.message)
        else:
            forget_failure(self._state.run_directory, METRICS)

    def unrecorded(self) -> dict[str, str]:
        """Return the reason for each record that cannot be written."""
        from amd_gpu_tracker.records.unrecorded import read_failures

        return read_failures(State(self._host).run_directory)

    def settle_history(self) -> None:
        """Complete the records of reservations whose end was not written, for example after a power cut."""
        if self._state.records_history:
            from amd_gpu_tracker.history.files import settle

            settle(self._book)

    def history(self, *, since: float, until: float) -> Iterator[Used | None]:
        """Yield the reservations that overlap the time from `since` to `until`, and None for each unreadable line.

        Both are in seconds since 1970 (UTC).
        """
        from amd_gpu_tracker.history.files import read_history

        return read_history(self._state, since=since, until=until)

    def refusals(self) -> list[Refusal]:
        """Return the latest refusals, oldest first: those of root's containers and those of the caller's own."""
        states = {each.run_directory: each for each in (State(self._state.host), self._state)}
        found = [refusal for each in states.values() for refusal in read_refusals(each)]
        return sorted(found, key=lambda refusal: refusal.time)

    if TYPE_CHECKING:

        @overload
        def reserve(self, request: str, /, *, pid: int | None = None) -> Reservation: ...

        @overload
        def reserve(self, container_id: str, request: str, *, pid: int | None = None) -> tuple[int, ...]: ...

    def reserve(
        self, container_id: str, request: str | None = None, *, pid: int | None = None
    ) -> Reservation | tuple[int, ...]:
        """Reserve the GPUs of a request until the process `pid` ends, by default the calling process.

        With only a request, such as `reserve("auto:1")`, return a reservation, as `hold` does, with a generated name.
        With a `request` and a `container_id`, which is any name that no other reservation has, return the numbers of
        the GPUs.

        GpusRefused if a GPU is exclusive and in use, or if a choice such as `auto:2` finds too few GPUs now; nothing is
        reserved then. RequestError if the host can never meet the request, ContainerRunning if this id already has
        GPUs, TrackerDisabled if the tracker is disabled.
        """
        if request is None:
            return self.hold(_new_name(), container_id, pid=pid)
        from amd_gpu_tracker.claims.by_name import reserve_by_name

        return _numbers(reserve_by_name(self._book, container_id, request, pid=pid, rules=self._rules))

    def hold(self, name: str, request: str, *, pid: int | None = None) -> Reservation:
        """Reserve GPUs for a program; return the reservation, which the program can hand on to a container.

        `request` and `pid` are as for `reserve`, and `name` as its `container_id`, but a name that the calling process
        has used before is also refused. GpusRefused also if other jobs wait in line. In a `with` statement, the GPUs
        are released at the end of the block.
        """
        return self._hold(name, request, pid=pid, before=self._tickets())

    def wait(self, name: str, request: str, *, timeout: float | None = None, tell: Tell = keep_quiet) -> Reservation:
        """Wait in line, then reserve GPUs as `hold` does; jobs are served in the order in which they came.

        `name` and `request` are as for `hold`. WaitOver after `timeout` seconds, and when `cancel` is called;
        RequestError at once if the host can never meet the request. `tell` is called with a message about the wait.
        """
        from amd_gpu_tracker.broker.turn import wait_in_line

        return wait_in_line(
            self._state,
            name,
            request,
            timeout=timeout,
            tell=tell,
            processes=self._processes,
            rules=self._rules,
            try_now=lambda: self._hold(name, request, is_waiting=True),
            release=self.release,
        )

    def waiting(self) -> list[Ticket]:
        """Return the waiting jobs, in the order in which they came.

        These are root's jobs, the caller's, and the jobs of all users of the service.
        """
        return [ticket for each in self._tickets() for ticket in each.with_starts()]

    def cancel(self, name: str) -> bool:
        """Remove the job `name` from the queue; False if no such job waits.

        NotPermitted if the caller may not cancel it.
        """
        return any(each.drop(ticket) for each in self._tickets() for ticket in each.named(name))

    def release(self, container_id: str) -> tuple[int, ...]:
        """Release the GPUs of a container that is gone, or of the calling process; return their numbers.

        `container_id` is the id of the container or the name of the reservation. ContainerRunning if its processes are
        still running: there is no other way to release them.
        """
        from amd_gpu_tracker.claims.release import release

        released = release(self._book, container_id, creators=(self._processes.myself(),))
        if released.living:
            raise ContainerRunning(f"container {container_id} is still running", hint="stop it first")
        keys = {key for lease in released.dropped for key in lease.gpus}
        return _numbers([gpu for gpu in locate_gpus(self._host) if gpu.key in keys]) if keys else ()

    def container_names(self, uses: Iterable[ContainerUse]) -> dict[str, str]:
        """Return the engines' names of the containers in `uses`, by id; unknown names are left out."""
        from amd_gpu_tracker.life.container_names import find_container_names

        return find_container_names(uses)

    def faults(self) -> StateFaults:
        """Return the faults of the tracker's own files, and who has which GPU, as far as the files can be read."""
        from amd_gpu_tracker.life.faults import find_faults

        return find_faults(State(self._host), self._processes)

    def prune(self) -> None:
        """Remove the reservations of root's containers and of processes that are gone."""
        from amd_gpu_tracker.life.lease_scan import prune_leases

        state = State(self._host)
        with self._book.lock(state.lock_path):
            prune_leases(state, self._processes, state.lease_paths())

    def preview(self, name: str, request: str) -> tuple[Sequence[GpuLocation], dict[str, str]]:
        """Return the GPUs and variables that `hold` with `name` and `request` would reserve now; errors as `hold`."""
        from amd_gpu_tracker.claims.by_name import preview_by_name
        from amd_gpu_tracker.claims.handover import build_environment

        gpus = preview_by_name(self._book, name, request, rules=self._rules, before=self._tickets())
        return gpus, build_environment(gpus, locate_gpus(self._host), "")

    def require_possible(self, request: str) -> None:
        """Raise an error if waiting can never fulfil a `request`."""
        from amd_gpu_tracker.broker.turn import require_possible

        require_possible(self._state, request, self._rules)

    def _tickets(self) -> list[Tickets]:
        from amd_gpu_tracker.waiting.tickets import all_tickets

        return all_tickets((self._state, State(self._host)), self._processes)

    def _hold(
        self,
        name: str,
        request: str,
        *,
        pid: int | None = None,
        is_waiting: bool = False,
        before: Sequence[Tickets] = (),
    ) -> Reservation:
        from amd_gpu_tracker.claims.by_name import hold_by_name

        return hold_by_name(
            self._book,
            name,
            request,
            pid=pid,
            rules=self._rules,
            release=self.release,
            is_waiting=is_waiting,
            before=before,
        )

    def _take_over(self, tell: Tell = keep_quiet) -> None:
        """Take over the original toolkit's state, if that is still to be done and the caller may do it.

        StateError, once, if it cannot be taken over; from then on, every GPU is refused.
        """
        if not self._state.has_former_policy():
            return
        try:
            with self._book.locked_by_root():
                former = self._state.take_over()
            if former and former.enabled:
                self._adopt(tell)
        except NotPermitted:
            return

    def _adopt(self, tell: Tell) -> None:
        from amd_gpu_tracker.claims.adoption import adopt_running

        adopt_running(self._book, tell, since=self._processes.now())

    def _say_living(self, living: Sequence[Lease], *, force: bool, tell: Tell) -> None:
        """Report which reservations keep GPUs after a reset, and which are forgotten."""
        from amd_gpu_tracker.claims.forgetting import say_of

        gpus = locate_gpus(self._host)
        for lease in living:
            who, what = say_of(lease, gpus)
            if lease.gpus and not force:
                tell(f"{who} is running and uses {what}")
            # A container is found again.
            elif lease.gpus and self._state.read_lease(self._state.lease_path(lease.key)) is None:
                tell(f"{who} is running, and its reservation of {what} is forgotten")

    def _enabled_as_far_as_known(self) -> bool:
        try:
            return self._state.read_policy().enabled
        except StateError:
            return True

    def _begin_history(self) -> None:
        if not self._state.is_rootless:
            from amd_gpu_tracker.history.files import begin_history

            begin_history(self._state)

    def _fresh_policy(self, *, enabled: bool) -> Policy:
        lasting = self._lasting()
        if not enabled:
            return Policy(**lasting)
        gpus = locate_gpus(self._host)
        # A policy is for all GPUs of the host.
        require_all_gpus(gpus)
        return Policy(enabled=True, gpus=read_tracked_gpus(self._host, gpus), **lasting)


def _asking_user() -> int:
    """Return the user who asks, also behind sudo, which passes on the user's number."""
    from amdgpu_discovery.people import behind_sudo

    told = behind_sudo(os.environ)
    return os.getuid() if told is None else told


def _new_name() -> str:
    """Return a name for a reservation of this process that no other reservation has."""
    return f"python-{os.getpid()}-{os.urandom(4).hex()}"


def _numbers(gpus: Sequence[GpuLocation]) -> tuple[int, ...]:
    return tuple(gpu.number for gpu in gpus)
