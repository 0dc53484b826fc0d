"""A lease: which container uses which GPUs, and by which processes its life can be proved."""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.files import read_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A version that an earlier one cannot read without giving a GPU away twice, or forgetting who has one, gets a higher
# number; a key that an earlier one may pass over does not. `gpus` keeps its meaning in every version.
VERSION = 1
# How `format_lease` begins and ends: a file that was cut off or damaged at random does not.
LEASE_BEGINS = b'{"version":1,"container_id":"'
LEASE_ENDS = b"}\n"
TICKS_PER_SECOND = posix.sysconf("SC_CLK_TCK")
# How far the kernel puts the clocks and the starts of processes ahead for this process (time_namespaces(7)).
CLOCK_OFFSETS = "/proc/self/timens_offsets"
# No kernel gives a process a higher id (PID_MAX_LIMIT of include/linux/threads.h).
LARGEST_PID = 1 << 22
# Of ticks since boot, which the kernel counts in 64 bits.
LARGEST_START = (1 << 64) - 1
# Of users and groups; no GPU has more MiB, and no host more GPUs.
LARGEST_ID = (1 << 32) - 1
MOST_GPUS = 4096
# In seconds, and later than anything that a calendar can show.
NEVER = 1e13

# What the first version wrote already, also as "" or null.
ALWAYS_THERE = frozenset(("root", "bundle", "init", "pid_file", "cgroup"))
TIMES_SINCE_BOOT = ("begun", "until", "limit", "idle_since", "preemptible")

# By which way a container came to a GPU.
BY_ENVIRONMENT = "env"
BY_CDI = "cdi"
BY_DEVICE = "device"
BY_API = "api"
BY_SWARM = "swarm"
# It ran already when the tracker was enabled or reset.
BY_ADOPTION = "adopted"

# The variable by which a container is given the GPUs of a reservation, of whose lease it has the token.
TOKEN = "AMD_CTK_RESERVATION"  # noqa: S105 - it is no password


class LaterVersion(ValueError):
    """A file of the tracker that says that this version of the toolkit must not go by it."""


class ProcessId(Value):
    """One process of one boot.

    Attributes:
        pid: Its id, which the kernel uses again.
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
        """Return whether the kernel may have given it this id and start."""
        return 0 < self.pid <= LARGEST_PID and 0 <= self.start <= LARGEST_START


class Holder(Value):
    """A container that claims GPUs, as far as its maker knows it."""

    container_id: str
    # The runtime's --root, "" for its default: one id may live under two of them.
    root: str = ""
    bundle: str = ""
    # Who makes the container: from the claim until its init is known, the lease lives as long as this process.
    creator: ProcessId
    # The container's init, where it is known already.
    init: ProcessId | None = None
    # Where the runtime will write the id of the container's init, "" for nowhere.
    pid_file: str = ""
    # `cgroupsPath` of a container without a pid namespace of its own, whose processes outlive its init.
    cgroup: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return what no two containers share."""
        return self.root, self.container_id


class Lease(Holder):
    """GPUs in the hands of a container."""

    # `GpuLocation.key` of each.
    gpus: tuple[str, ...]
    ways: tuple[str, ...]
    # When it was made: by the wall clock, and how far that was from the time since boot.
    since: float
    boot_offset: float
    boot_id: str
    # The pid namespace in which the process ids are meant.
    namespace: str
    # The generic resources by which Docker Swarm promised the GPUs, () where it did not.
    kinds: tuple[str, ...] = ()
    # How much memory of its one GPU was promised, in units of 2^20 bytes; 0 where GPUs are promised whole.
    vram_mb: int = 0
    # The container is root on the host and can reach every GPU; those of it that are not in `gpus` it has not claimed.
    is_privileged: bool = False
    # The IPC namespace of its pod, "" for a container that is in none; those of one pod share exclusive GPUs.
    pod: str = ""
    # Of a reservation that a container may be given: the digest of its token. The token itself is no file's business.
    token_digest: str = ""
    # Of a container that was given a reservation: the name of that, and the digest of its token.
    reservation: str = ""
    reservation_digest: str = ""
    # Whose job it is, by the number of the user; None if that is unknown.
    person: int | None = None
    # By the rule for which group that person has it; None for another rule.
    group: int | None = None
    # When the job began whose GPUs a container was given, in seconds since boot; it may outlive the job. 0 for what
    # began by itself.
    begun: float = 0.0
    # When it ends without a process, in seconds since boot: a reservation by hand, or what is kept for a container that
    # is started again, whose `bundle` is then where its engine keeps it. 0 where processes say when.
    until: float = 0.0
    # The unit of systemd that starts such a container again, under another id; "" where an engine does.
    unit: str = ""
    # When its processes, or the container, are ended, in seconds since boot; 0 for never.
    limit: float = 0.0
    # Since when its GPUs have been idle, and from when on it ends for waiting jobs, in seconds since boot; 0
    # while they are used. A spare job has only the second. `is_preempted` once it is ended for that, which its limit,
    # or its `until`, says as well.
    idle_since: float = 0.0
    preemptible: float = 0.0
    is_preempted: bool = False
    # Keys of later versions with what they say.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def job(self) -> str:
        """Return the id of the job or reservation: the own, or of a container the one whose GPUs it was given."""
        return self.container_id if BY_API in self.ways else self.reservation

    def title(self, name: str = "") -> str:
        """Return what sentences call its holder, with the `name` that its engine gave a container.

        A place is kept for the name of a person, such as `{1000}`: a container start looks up none.
        """
        owner, is_owned, job = self.container_id.rpartition("/")
        if BY_API in self.ways and is_owned:
            return f"job {job} of {{{self.person}}}" if self.person else f"job {job} of user {owner}"
        kind = "job" if BY_API in self.ways else "container"
        title = f"{kind} {self.container_id} ({name})" if name else f"{kind} {self.container_id}"
        return f"{title} of {{{self.person}}}" if self.person else title

    @property
    def job_began(self) -> float:
        """Return when the job or reservation began, or of a container that whose GPUs it has, in seconds since boot."""
        return self.begun or self.since - self.boot_offset

    def is_preemptible(self, now: float) -> bool:
        """Return whether it is ended for those who wait: it is spare, or was idle for long enough."""
        return 0 < self.preemptible <= now and not self.is_preempted

    @property
    def spare_from(self) -> float:
        """Return from when on a spare job is ended for others; 0 for one that is not spare."""
        return 0.0 if self.idle_since else self.preemptible

    @property
    def is_spare(self) -> bool:
        """Return whether it was asked for with `--preempt=now`: preemptible from the start, and not for being idle."""
        return self.spare_from > 0

    @property
    def is_kept(self) -> bool:
        """Return whether the container has ended and its engine starts it again."""
        return self.until > 0 and BY_API not in self.ways


TYPES = {"ProcessId": ProcessId}


# Empty until it was asked for.
_ahead: list[float] = []


def ahead_of_boot() -> float:
    """Return by how many seconds a time since boot is too late for this process, 0 outside of a time namespace."""
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
    """Return the time in seconds since boot, as leases have it: the same in every time namespace."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ahead_of_boot()


def boot_offset() -> float:
    """Return what must be added to a time since boot to make it a time of the wall clock, as that goes now."""
    return time.time() - since_boot()


def format_lease(lease: Lease) -> bytes:
    """Return a lease as the content of its file."""
    fields = with_unknown(lease)
    for name in ("creator", "init"):
        fields[name] = fields[name].as_dict() if fields[name] else None
    return dumps({"version": VERSION, **fields}) + b"\n"


def with_unknown(value: Value) -> dict[str, Any]:
    """Return the fields of a value for JSON, with those of a later version that it keeps as `unknown`."""
    fields = value.as_dict()
    unknown = dict(fields.pop("unknown"))
    return {**fields, **unknown}


def parse_lease(content: bytes) -> Lease:
    """Return what the content of a lease's file says; ValueError where it is not what `format_lease` wrote.

    LaterVersion, a ValueError, where a later version of the toolkit wrote it for itself only.
    """
    try:
        return _parse(loads(content))
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def find_named_gpus(content: bytes) -> tuple[str, ...] | None:
    """Return the keys of the GPUs that a lease names which cannot be understood; None where it may be of any."""
    try:
        keys = loads(content)["gpus"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return None
    is_list = type(keys) is list and all(type(key) is str for key in keys)
    return tuple(keys) if is_list else None


def require_version(version: object) -> None:
    """Raise LaterVersion for a higher version than this one reads, ValueError for what is no version."""
    if version == VERSION:
        return
    if type(version) is int and version > VERSION:
        raise LaterVersion(f"it is version {version}, of a later toolkit")
    raise ValueError(f"it is not version {VERSION}")


def _require_sound(lease: Lease) -> None:
    """Raise ValueError where a field is of the right type and not what it must be."""
    for process in (lease.creator, lease.init or lease.creator):
        if not process.is_possible:
            raise ValueError("a process id is not one of the kernel's")
    texts = [field for field in vars(lease).values() if type(field) is str]
    text = "".join(texts)
    # No path and no program can be called so.
    if "\0" in text:
        name = next(name for name, field in vars(lease).items() if type(field) is str and "\0" in field)
        raise ValueError(f"{name} has a null byte")
    for each in () if text.isascii() else texts:
        # As paths are encoded; UnicodeEncodeError, a ValueError, for half of a surrogate pair.
        each.encode("utf-8", "surrogateescape")
    if not all(number is None or 0 <= number <= LARGEST_ID for number in (lease.person, lease.group, lease.vram_mb)):
        raise ValueError("person, group, vram_mb: one is not a possible number")
    for name in ("since", "boot_offset"):
        if not abs(getattr(lease, name)) < NEVER:
            raise ValueError(f"{name} is not a time")
    if not all(0 <= getattr(lease, name) < NEVER for name in TIMES_SINCE_BOOT):
        raise ValueError(f"{', '.join(TIMES_SINCE_BOOT)}: one is not a time")


def _parse(fields: dict[str, Any]) -> Lease:
    require_version(fields.pop("version"))
    if not fields.keys() >= ALWAYS_THERE:
        raise ValueError(f"{', '.join(sorted(ALWAYS_THERE - fields.keys()))} is missing")
    lease = Lease.from_json(fields, TYPES)
    _require_sound(lease)
    return lease
