"""What follows from the kind of a lease: whether it is over, its title, its end, and what comes after.

Nothing here reads or writes. Starts of containers load this only for a lease with an end of its own, or for a refusal.
"""

from __future__ import annotations

from amd_gpu_tracker.book.lease import CONTAINER, ENDING_JOB, JOB, KEPT, RESERVATION, Lease
from amd_gpu_tracker.errors import placeholder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.book.lease import ProcessId

# The end of something that may never end.
INFINITY = float("inf")


def kind_of(lease: Lease) -> LeaseKind:
    """Return what a lease says, by its kind."""
    return KINDS[lease.kind](lease)


class LeaseKind:
    """A lease that lasts as long as its processes, perhaps with a time limit for these."""

    noun = "container"

    def __init__(self, lease: Lease) -> None:
        self.lease = lease

    def title(self, name: str = "") -> str:
        """Return the title of its holder in sentences; `name` is the engine's name of a container.

        A person is a placeholder in it, as in the text of a `Message`.
        """
        title = f"{self.noun} {self.lease.container_id}"
        if name:
            title = f"{title} ({name})"
        return f"{title} of {placeholder(self.lease.person)}" if self.lease.person else title

    def title_in_refusal(self, name: str) -> str:
        """Return the title with what a user who waits for its GPUs has to know."""
        return self.title(name)

    @property
    def process(self) -> ProcessId | None:
        """Return the process whose descendants all have its GPUs, None if it is unknown.

        A process may make several containers, as containerd does. A process that reserves GPUs for itself is the job.
        """
        return self.lease.init or (None if self.lease.bundle else self.lease.creator)

    @property
    def end(self) -> float:
        """Return when it ends, in seconds since boot; 0 for never."""
        return self.lease.limit

    @property
    def is_limited(self) -> bool:
        """Return whether its processes have a time limit, at which they are ended."""
        return self.lease.limit > 0

    @property
    def has_terms(self) -> bool:
        """Return whether a container in which it goes on has to end for it: at its time limit, or for other jobs."""
        return self.is_limited or self.lease.is_spare

    def with_end(self, end: float) -> Lease:
        """Return the lease with another end."""
        return self.lease.replace(limit=end)

    def is_over(self, _: float) -> bool:
        """Return whether it has ended now, whatever its processes do."""
        return False

    @property
    def needed_path(self) -> str:
        """Return a path without which it is over; "" for none."""
        return ""

    @property
    def lasts_until(self) -> float | None:
        """Return when it ends without a process, in seconds since boot; None if it has processes."""
        return None

    def kept_until(self, _: float) -> float:
        """Return until when its GPUs are kept after its end, if its engine restarts it; 0 if they are not."""
        return 0.0

    @property
    def is_followed(self) -> bool:
        """Return whether the service that gives out GPUs, while it runs, sees its end at once."""
        return False

    @property
    def may_be_idle(self) -> bool:
        """Return whether its owner is warned, and it may end for others, if its GPUs are idle."""
        return False

    def is_ending(self, now: float) -> bool:
        """Return whether its GPUs will soon be free, because its time is over."""
        return 0 < self.lease.limit <= now

    def holds_for(self, _: Lease) -> bool:
        """Return whether it holds the GPUs of a job while the job ends."""
        return False

    def goes_on(self, leases: Sequence[Lease]) -> bool:
        """Return whether some leases go on with what it was of: its containers, jobs in it, or its end."""
        is_there = any(each.key == self.lease.key for each in leases)
        return (
            is_there or bool(self.lease.inside(leases)) or any(kind_of(each).holds_for(self.lease) for each in leases)
        )

    def is_preemptible(self, now: float) -> bool:
        """Return whether it may end for waiting jobs, because it is spare or was idle for long enough."""
        return 0 < self.lease.preemptible <= now and not self.lease.is_preempted

    def earliest_end(self, now: float) -> float:
        """Return when its GPUs are free at the earliest; 0 if that may be any time."""
        return 0.0 if self.is_preemptible(now) else self.end

    def latest_end(self, now: float, grace: float) -> float:
        """Return when its GPUs are free at the latest if others wait; `grace` is the time after SIGTERM."""
        if self.lease.is_spare:
            return now + grace
        return self.end + grace if self.end else INFINITY


class TimedLease(LeaseKind):
    """A lease that lasts until a time, without a process."""

    @property
    def end(self) -> float:
        """Return when it ends, in seconds since boot."""
        return self.lease.until

    @property
    def is_limited(self) -> bool:
        """Return False: it has no processes."""
        return False

    def with_end(self, end: float) -> Lease:
        """Return the lease with another end."""
        return self.lease.replace(until=end)

    @property
    def lasts_until(self) -> float | None:
        """Return when it ends."""
        return self.lease.until

    def is_over(self, now: float) -> bool:
        """Return whether its time is over."""
        return 0 < self.lease.until <= now

    def latest_end(self, now: float, grace: float) -> float:
        """Return when its GPUs are free at the latest if others wait."""
        return now + grace if self.lease.is_spare else self.lease.until


class ContainerLease(LeaseKind):
    """A container that runs or is being made."""

    def kept_until(self, most: float) -> float:
        """Return until when its GPUs are kept if its engine restarts it: at most until its time limit.

        Not in a pod: the number of its namespace may be reused, and its containers that go on keep its GPUs.
        """
        if self.lease.pod or not self.lease.bundle:
            return 0.0
        return min(most, self.lease.limit or most)


class KeptLease(TimedLease):
    """A container that has ended, and that its engine will restart; `bundle` is a path that exists until then."""

    @property
    def needed_path(self) -> str:
        """Return the path that is there until the engine removes the container, and so will not restart it."""
        return self.lease.bundle

    def title_in_refusal(self, name: str) -> str:
        """Return the title with what a user who waits for its GPUs has to know."""
        return f"{self.title(name)}, which its engine will restart"

    def earliest_end(self, _: float) -> float:
        """Return 0: its engine may remove the container at any time."""
        return 0.0

    def latest_end(self, *_: float) -> float:
        """Return infinity: the restarted container has no end that is known now."""
        return INFINITY


class JobLease(LeaseKind):
    """A job, or a program that has GPUs under a name."""

    noun = "job"

    def title(self, name: str = "") -> str:
        """Return its title in sentences. Ids of users' jobs begin with the owner's uid."""
        owner, is_owned, job = self.lease.container_id.rpartition("/")
        if not is_owned:
            return super().title(name)
        return f"job {job} of {placeholder(self.lease.person)}" if self.lease.person else f"job {job} of user {owner}"

    @property
    def is_followed(self) -> bool:
        """Return whether it is a person's."""
        return self.lease.person is not None

    @property
    def may_be_idle(self) -> bool:
        """Return whether it is a person's, and neither in a reservation, nor spare, nor preempted."""
        is_other = self.lease.reservation or self.lease.is_spare or self.lease.is_preempted
        return self.lease.person is not None and not is_other


class ReservationLease(TimedLease, JobLease):
    """A reservation by hand, which no process holds."""


class EndingLease(ReservationLease):
    """The GPUs of a job that is ending; `reservation` is its id."""

    def is_ending(self, _: float) -> bool:
        """Return True: it is a part of the job."""
        return True

    def holds_for(self, job: Lease) -> bool:
        """Return whether this is the job."""
        return self.lease.reservation == job.container_id


KINDS: dict[str, type[LeaseKind]] = {
    CONTAINER: ContainerLease,
    KEPT: KeptLease,
    JOB: JobLease,
    RESERVATION: ReservationLease,
    ENDING_JOB: EndingLease,
}
