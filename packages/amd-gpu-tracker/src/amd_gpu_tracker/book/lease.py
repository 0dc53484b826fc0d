"""A lease: which container uses which GPUs, and which processes prove that it is alive."""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.files import read_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

# Increase this for a change by which an earlier version could give a GPU away twice, or forget its user. A new key that
# earlier versions may ignore does not need it. `gpus` keeps its meaning in every version.
VERSION = 1
# The first and last bytes that `format_lease` writes. A file that was cut off or damaged lacks them.
LEASE_BEGINS = b'{"version":1,"container_id":"'
LEASE_ENDS = b"}\n"
TICKS_PER_SECOND = posix.sysconf("SC_CLK_TCK")
# How far the kernel puts the clocks and the starts of processes ahead for this process (time_namespaces(7)).
CLOCK_OFFSETS = "/proc/self/timens_offsets"
# The highest process id of any kernel (PID_MAX_LIMIT of include/linux/threads.h).
LARGEST_PID = 1 << 22
# In ticks since boot, which the kernel counts in 64 bits.
LARGEST_START = (1 << 64) - 1
# For users and groups; no GPU has more MiB. No host has more GPUs than MOST_LEASED_GPUS.
LARGEST_ID = (1 << 32) - 1
MOST_LEASED_GPUS = 4096
# A wall clock that moved by less was adjusted, and not set.
CLOCK_STEP_SECONDS = 1.0
# In seconds; later than anything that a calendar can show.
NEVER = 1e13

# Keys that even the first version always wrote, perhaps as "" or null.
ALWAYS_THERE = frozenset(("root", "bundle", "init", "pid_file", "cgroup"))
TIMES_SINCE_BOOT = ("begun", "until", "limit", "idle_since", "preemptible")

# How a container got a GPU.
BY_ENVIRONMENT = "env"
BY_CDI = "cdi"
BY_DEVICE = "device"
BY_API = "api"
BY_SWARM = "swarm"
# The container was already running when the tracker was enabled or reset.
BY_ADOPTION = "adopted"

# What a lease is of; see `Lease.kind`. The classes of kinds.py say what follows from it.
CONTAINER, KEPT, JOB, RESERVATION, ENDING_JOB = "container", "kept", "job", "reservation", "ending"
# A lease that holds the GPUs of a job while it ends has the job's id with this suffix.
ENDING = ".ending"

# The variable with the token that gives a container the GPUs of a reservation.
TOKEN = "AMD_CTK_RESERVATION"  # noqa: S105 - it is no password


class LaterVersion(ValueError):
    """A file of the tracker that this version of the toolkit must not use, because a later one wrote it."""


class ProcessId(Value):
    """One process of one boot.

    Attributes:
        pid: Its id, which the kernel may reuse.
        start: When it started, in clock ticks since boot (field 22 of /proc/PID/stat).
    """

    pid: int
    start: int

    @property
    def started(self) -> float:
        """Return when it started, in seconds since boot."""
        seconds: float = self.start / TICKS_PER_SECOND
        return seconds

    @property
    def is_possible(self) -> bool:
        """Return whether the kernel could have given a process this id and start."""
        return 0 < self.pid <= LARGEST_PID and 0 <= self.start <= LARGEST_START


class Holder(Value):
    """A container that claims GPUs, as far as its creator knows it."""

    container_id: str
    # The runtime's --root, "" for its default. The same id may exist under two roots.
    root: str = ""
    bundle: str = ""
    # The process that makes the container. Until the init is known, the lease is alive as long as this process.
    creator: ProcessId
    # The container's init, if known.
    init: ProcessId | None = None
    # Where the runtime will write the process id of the container's init, "" for nowhere.
    pid_file: str = ""
    # `cgroupsPath` of a container without its own pid namespace, whose processes outlive its init.
    cgroup: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return a key that no two containers share."""
        return self.root, self.container_id


class Lease(Holder):
    """The record that a container or job has certain GPUs."""

    # The `GpuLocation.key` of each GPU.
    gpus: tuple[str, ...]
    ways: tuple[str, ...]
    # When it was made, on the wall clock, and the wall clock minus the time since boot at that moment.
    since: float
    boot_offset: float
    boot_id: str
    # The pid namespace that the process ids belong to.
    namespace: str
    # The generic resources by which Docker Swarm promised the GPUs, () if it did not.
    kinds: tuple[str, ...] = ()
    # How much memory of each of its GPUs it was promised, in units of 2^20 bytes; 0 if it has whole GPUs.
    vram_mb: int = 0
    # The container is root on the host and can reach every GPU, but has claimed only those in `gpus`.
    is_privileged: bool = False
    # The IPC namespace of its pod, "" without one. Containers of one pod share exclusive GPUs.
    pod: str = ""
    # For a reservation that can be handed on: the digest of its token. The token itself is never written.
    token_digest: str = ""
    # For a container that was given a reservation: the reservation's name, and the digest of its token.
    reservation: str = ""
    reservation_digest: str = ""
    # The uid of the job's owner; None if unknown.
    person: int | None = None
    # The group whose rule gave the owner the GPUs; None for another rule.
    group: int | None = None
    # For a container with a job's GPUs, which may outlive the job: when the job began, in seconds since boot; else 0.
    begun: float = 0.0
    # When it ends without a process, in seconds since boot: a reservation by hand, or a lease kept for a container that
    # will be restarted, whose `bundle` then is a path that exists while that may happen. 0 if processes decide.
    until: float = 0.0
    # The systemd unit that restarts such a container under another id; "" if an engine does.
    unit: str = ""
    # The time limit of its processes or container, in seconds since boot; 0 for none.
    limit: float = 0.0
    # Since when its GPUs have been idle, and from when it may end for waiting jobs, in seconds since boot; 0 while they
    # are used. A spare job has only the second. `is_preempted` is set when it is being ended for another job; its
    # `limit` or `until` is then reached, too.
    idle_since: float = 0.0
    preemptible: float = 0.0
    is_preempted: bool = False
    # Keys of later versions, with their values.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def is_by_name(self) -> bool:
        """Return whether a job or reservation has the GPUs under its name, and no container."""
        return BY_API in self.ways

    @property
    def kind(self) -> str:
        """Return what it is of: a container, one kept for its restart, a job, a reservation, or a job that is ending.

        Its file has this, too, as its last key. But earlier versions write no kind, or keep one that no longer applies,
        so only these conditions count.
        """
        if not self.is_by_name:
            return KEPT if self.until else CONTAINER
        if self.reservation and self.container_id.endswith(ENDING):
            return ENDING_JOB
        return RESERVATION if self.until else JOB

    @property
    def job(self) -> str:
        """Return the id of the job or reservation; for a container, that of the job whose GPUs it was given."""
        return self.container_id if self.is_by_name else self.reservation

    @property
    def outer_job(self) -> str:
        """Return the id of the reservation that it is in, else its own.

        A container in a reservation remains part of it after the job that started the container has ended.
        """
        return self.reservation or self.container_id

    @property
    def job_began(self) -> float:
        """Return when the job or reservation began, in seconds since boot; for a container, that of its job."""
        return self.begun or self.since - self.boot_offset

    @property
    def spare_from(self) -> float:
        """Return from when a spare job may end for others; 0 for one that is not spare."""
        return 0.0 if self.idle_since else self.preemptible

    @property
    def is_spare(self) -> bool:
        """Return whether it was started with `--preempt=now`: preemptible from the start, not because it is idle."""
        return self.spare_from > 0

    @property
    def is_part(self) -> bool:
        """Return whether a job has only a part of the memory of its GPUs; Swarm's promises are another matter."""
        return self.vram_mb > 0 and not self.kinds

    @property
    def will_restart(self) -> bool:
        """Return whether the container has ended, and its engine will restart it."""
        return self.kind == KEPT

    def is_in(self, reservation: Lease) -> bool:
        """Return whether it is of a job in this reservation.

        Jobs with another end belong to an earlier reservation of the same name, and are being ended.
        """
        return self.reservation == reservation.container_id and self.limit == reservation.until > 0

    def inside(self, leases: Iterable[Lease]) -> list[Lease]:
        """Return the leases of jobs and containers that have the GPUs of this reservation or job and end with it."""
        jobs = [each for each in leases if each.is_in(self)]
        own = self.token_digest if self.is_by_name else self.reservation_digest
        digests = {own, *(each.token_digest for each in jobs)} - {""}
        return jobs + [each for each in leases if each.reservation_digest in digests and each not in (self, *jobs)]

    def rivals(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return the leases outside of it and of what it is in: all holders of its tokens share its GPUs."""
        above = [each for each in held_by_name(leases) if each.container_id == self.reservation]
        inside = [each for outer in (self, *above) for each in outer.inside(leases)]
        return [each for each in leases if each not in (*above, *inside)]


TYPES = {"ProcessId": ProcessId}


def held_by_name(leases: Iterable[Lease]) -> list[Lease]:
    """Return the leases of jobs and reservations, but not of containers."""
    return [each for each in leases if each.is_by_name]


# A cache, empty until the first call.
_ahead: list[float] = []


def ahead_of_boot() -> float:
    """Return how many seconds this process's time since boot is ahead; 0 outside of a time namespace."""
    if not _ahead:
        _ahead.append(_read_clock_offset())
    return _ahead[0]


def _read_clock_offset() -> float:
    try:
        lines = read_file(CLOCK_OFFSETS).decode().splitlines()
    except OSError:
        # The kernel has no time namespaces, or is older than 5.6.
        return 0.0
    clocks = {clock: int(seconds) + int(nanoseconds) / 1e9 for clock, seconds, nanoseconds in map(str.split, lines)}
    return clocks["boottime"]


def since_boot() -> float:
    """Return the time in seconds since boot, as in leases: the same in every time namespace."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ahead_of_boot()


def boot_offset() -> float:
    """Return the wall clock minus the time since boot, as of now."""
    return time.time() - since_boot()


def on_this_clock(since: float, offset: float) -> float:
    """Return a moment of this boot as the wall clock counts now; `offset` was the boot offset at that moment."""
    moved = boot_offset() - offset
    # The clock is also adjusted all the time, and lists should not change with it.
    return since + moved if abs(moved) >= CLOCK_STEP_SECONDS else since


def format_lease(lease: Lease) -> bytes:
    """Return a lease as the content of its file."""
    fields = with_unknown(lease)
    for name in ("creator", "init"):
        fields[name] = fields[name].as_dict() if fields[name] else None
    # Behind the keys of later versions, as LEASE_BEGINS and release.sh expect the first keys where they are.
    fields["kind"] = lease.kind
    return dumps({"version": VERSION, **fields}) + b"\n"


def with_unknown(value: Value) -> dict[str, Any]:
    """Return the fields of a value for JSON, with those of a later version that it keeps as `unknown`."""
    fields = value.as_dict()
    unknown = dict(fields.pop("unknown"))
    return {**fields, **unknown}


def parse_lease(content: bytes) -> Lease:
    """Parse the content of a lease's file; ValueError if `format_lease` did not write it.

    LaterVersion, a ValueError, if a later version of the toolkit wrote it in an incompatible format.
    """
    try:
        return _parse(loads(content))
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def find_named_gpus(content: bytes) -> tuple[str, ...] | None:
    """Return the keys of the GPUs in an invalid lease; None if it may be about any GPU."""
    try:
        keys = loads(content)["gpus"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return None
    is_list = type(keys) is list and all(type(key) is str for key in keys)
    return tuple(keys) if is_list else None


def require_version(version: object) -> None:
    """Raise LaterVersion for a version later than this one, ValueError for anything else that is not this version."""
    if version == VERSION:
        return
    if type(version) is int and version > VERSION:
        raise LaterVersion(f"it is version {version}, of a later toolkit")
    raise ValueError(f"it is not version {VERSION}")


def _require_sound(lease: Lease) -> None:
    """Raise ValueError if a field has the right type but an impossible value."""
    for process in (lease.creator, lease.init or lease.creator):
        if not process.is_possible:
            raise ValueError("a process id is not one of the kernel's")
    texts = [field for field in vars(lease).values() if type(field) is str]
    text = "".join(texts)
    # Paths and names of programs contain no null bytes.
    if "\0" in text:
        name = next(name for name, field in vars(lease).items() if type(field) is str and "\0" in field)
        raise ValueError(f"{name} has a null byte")
    for each in () if text.isascii() else texts:
        # Encoded as paths are. Half of a surrogate pair raises UnicodeEncodeError, which is a ValueError.
        each.encode("utf-8", "surrogateescape")
    if not all(number is None or 0 <= number <= LARGEST_ID for number in (lease.person, lease.group, lease.vram_mb)):
        raise ValueError("person, group or vram_mb is out of range")
    for name in ("since", "boot_offset"):
        if not abs(getattr(lease, name)) < NEVER:
            raise ValueError(f"{name} is not a time")
    if not all(0 <= getattr(lease, name) < NEVER for name in TIMES_SINCE_BOOT):
        raise ValueError(f"{', '.join(TIMES_SINCE_BOOT)}: one is not a time")


def _parse(fields: dict[str, Any]) -> Lease:
    require_version(fields.pop("version"))
    if not fields.keys() >= ALWAYS_THERE:
        raise ValueError(f"{', '.join(sorted(ALWAYS_THERE - fields.keys()))} is missing")
    fields.pop("kind", None)
    lease = Lease.from_json(fields, TYPES)
    _require_sound(lease)
    return lease
