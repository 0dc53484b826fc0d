"""The processes of the machine, identified by id and start time, because the kernel reuses process ids."""

from __future__ import annotations

import posix

from amd_gpu_tracker.book.lease import LARGEST_PID, TICKS_PER_SECOND, ProcessId, ahead_of_boot, since_boot
from amdgpu_discovery.files import exists, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from amdgpu_discovery.untrusted.bounded_files import FileAnswer

# The kernel passes at most 6 MiB of arguments and variables; with prctl(2), a process may place them anywhere.
LARGEST_ARGUMENTS = 8 * 1024 * 1024
LONGEST_LOGIN = 32
# Limit for the variables of one process whose names begin alike.
MOST_ENTRIES = 64
# Many times what reading the memory of thousands of processes takes.
MEMORY_SECONDS = 2.0
# Many times what exec(2) takes from the new memory to its environment (fs/exec.c, fs/binfmt_elf.c).
EXEC_SECONDS = 0.02
# From linux/capability.h.
CAP_SYS_PTRACE = 19
# It lives as long as the host does.
FIRST_PROCESS = 1
# The kernel's uids for a user without a number here, and for no user, as before a login.
NO_USERS = (65534, (1 << 32) - 1)
# The index of the start of a process (field 22 in proc(5)), counted from its state (field 3).
_START = 19


class Processes:
    """The processes of this machine, as seen in the caller's pid namespace.

    Tests may pass another directory as `proc`, and another clock as `now`.

    Attributes:
        now: Function that returns the time in seconds since boot.
    """

    def __init__(self, proc: str = "/proc", *, now: Callable[[], float] = since_boot) -> None:
        """Read processes in `proc`; `now` returns the time in seconds since boot, as leases have it."""
        self._proc = proc
        self.now = now
        self._boot_id = ""
        self._namespace = ""

    @property
    def directory(self) -> str:
        """Return the directory in which the kernel lists the processes."""
        return self._proc

    def find(self, pid: int) -> ProcessId | None:
        """Return the process with the id `pid`, None if there is none, or if only a zombie is left."""
        start = self._start(pid)
        return None if start is None else ProcessId(pid=pid, start=start)

    def is_running(self, process: ProcessId) -> bool:
        """Return whether this very `process` exists, and not another one with its id."""
        start = self._start(process.pid)
        # A runtime in the same time namespace records the start that the kernel shows there.
        return start is not None and process.start in (start, start + _ticks_ahead())

    def is_stopped(self, pid: int) -> bool:
        """Return whether the process `pid` is stopped, by a signal or by a debugger."""
        stat = self._stat(pid)
        return stat is not None and stat[0] in "Tt"

    def myself(self) -> ProcessId:
        """Return the calling process; `exec` keeps it."""
        found = self.find(posix.getpid())
        if found is None:
            raise AssertionError("this process is not in /proc")
        return found

    def ancestors(self, pid: int, generations: int) -> list[ProcessId]:
        """Return the process `pid` and its ancestors, nearest first, `generations` at most."""
        found: list[ProcessId] = []
        while pid > 1 and len(found) < generations:
            stat = self._stat(pid)
            if stat is None:
                break
            found.append(ProcessId(pid=pid, start=_start_in(stat)))
            pid = int(stat[1])
        return found

    def parents(self) -> dict[ProcessId, int]:
        """Return all visible processes that run, each with the id of its parent."""
        stats = {pid: stat for pid in self.pids() if (stat := self._stat(pid)) and stat[0] not in "ZX"}
        return {ProcessId(pid=pid, start=_start_in(stat)): int(stat[1]) for pid, stat in stats.items()}

    def words(self, pid: int) -> list[str]:
        """Return the command line of the process `pid` of the caller's user, [] if it cannot be read."""
        words = self._text(pid, "cmdline").split(b"\0")[:-1]
        return [word.decode("utf-8", "surrogateescape") for word in words]

    def first_words(self, pids: Collection[int]) -> dict[int, str]:
        """Return the first word of the command line of the processes `pids` of any users, "" if it is unknown."""
        return self._memory_of(pids, "cmdline", lambda text: text.partition(b"\0")[0])

    def pids(self) -> list[int]:
        """Return the ids of all processes that are visible."""
        return sorted(int(name) for name in posix.listdir(self._proc) if name.isdecimal())

    def uid(self, pid: int) -> int:
        """Return the user of the process `pid`, -1 if it has ended."""
        return next(iter(self.uids(pid)), -1)

    def uids(self, pid: int) -> list[int]:
        """Return the real, effective, saved and file system user of the process `pid`, [] if it has ended."""
        return self._ids(pid, b"Uid:")

    def login(self, pid: int | str) -> int | None:
        """Return the user who logged in for the process `pid`, as pam_loginuid(8) set it; None if it did not."""
        try:
            uid = int(read_file(f"{self._proc}/{pid}/loginuid", largest=LONGEST_LOGIN))
        except (OSError, ValueError):
            return None
        return uid if uid not in NO_USERS else None

    def gids(self, pid: int) -> list[int]:
        """Return the supplementary groups of the process `pid`, [] if it has ended."""
        return self._ids(pid, b"Groups:")

    def ids_inside(self, pid: int) -> list[int]:
        """Return the ids of the process `pid` in its pid namespaces, the caller's first, [] if it has ended."""
        return self._ids(pid, b"NSpid:")

    def is_trusted(self, pid: int) -> bool:
        """Return whether the process `pid` has only the caller's uid, and the caller's mount and user namespaces.

        The owner of /proc/PID proves nothing: it is root for every process that may not be dumped.
        """
        if set(self.uids(pid)) != {posix.geteuid()}:
            return False
        return all(self.link(pid, name) == self.link("self", name) != "" for name in ("ns/mnt", "ns/user"))

    def link(self, pid: int | str, name: str) -> str:
        """Return the target of the link `name` below /proc/`pid`, "" if it cannot be read."""
        try:
            return posix.readlink(f"{self._proc}/{pid}/{name}")
        except OSError:
            return ""

    def variable(self, pid: int, name: str) -> str:
        """Return the variable `name` with which the process `pid` of the caller's user was started, "" for none."""
        return _variable_in(self._text(pid, "environ"), name).decode("utf-8", "surrogateescape")

    def variable_of(self, pids: Collection[int], name: str) -> dict[int, str]:
        """Return the variable `name` of the processes `pids` of any users, "" if it cannot be read."""
        return self._memory_of(pids, "environ", lambda text: _variable_in(text, name))

    def variables(self, pid: int, names: Iterable[str]) -> dict[str, str]:
        """Return the variables `names` of the process `pid` of any user, "" if they cannot be read."""
        names = tuple(names)
        values = self._memory_of((pid,), "environ", lambda text: b"\0".join(_variable_in(text, name) for name in names))
        return dict(zip(names, values[pid].split("\0") if values[pid] else [""] * len(names), strict=True))

    def variables_named(self, pid: int, beginnings: Iterable[str]) -> dict[str, str]:
        """Return the variables of the process `pid` whose names have one of the `beginnings`; {} if it cannot be read.

        Empty ones count, too.
        """
        wanted = tuple(beginnings)
        values = self._memory_of((pid,), "environ", lambda text: b"\0".join(_entries_in(text, wanted)))
        return dict(entry.partition("=")[::2] for entry in values[pid].split("\0") if entry)

    def sees_others(self) -> bool:
        """Return whether processes of other users are visible; a /proc mounted with hidepid hides them."""
        return exists(f"{self._proc}/1")

    def may_look_at_users(self) -> bool:
        """Return whether the caller may read the namespaces and variables of other users' processes.

        Root may, except in a container without --privileged.
        """
        lines = read_file(f"{self._proc}/self/status").split(b"\n")
        effective = next(int(line.split()[1], 16) for line in lines if line.startswith(b"CapEff:"))
        return bool(effective >> CAP_SYS_PTRACE & 1)

    @property
    def boot_id(self) -> str:
        """Return the kernel's id of this boot."""
        if not self._boot_id:
            self._boot_id = read_file(f"{self._proc}/sys/kernel/random/boot_id").decode().strip()
        return self._boot_id

    @property
    def namespace(self) -> str:
        """Return the pid namespace that the process ids belong to."""
        if not self._namespace:
            self._namespace = posix.readlink(f"{self._proc}/self/ns/pid")
        return self._namespace

    def _start(self, pid: int) -> int | None:
        """Return the start of a process in ticks, None if there is no process; see `find`."""
        stat = self._stat(pid) if 0 < pid <= LARGEST_PID else None
        return None if stat is None or (stat[0] in "ZX" and not self._has_threads(pid)) else _start_in(stat)

    def _stat(self, pid: int) -> list[str] | None:
        """Return the fields of /proc/PID/stat from state to start. The name before them may contain anything."""
        try:
            content = read_file(f"{self._proc}/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):  # ProcessLookupError: it ended between open and read.
            return None
        return content.rpartition(b")")[2].decode().split(None, _START + 1)

    def _text(self, pid: int, name: str) -> bytes:
        """Return strings that each end with a null byte, b"" if they cannot be read or are too long."""
        try:
            return read_file(f"{self._proc}/{pid}/{name}", largest=LARGEST_ARGUMENTS)
        except OSError:
            return b""

    def _memory_of(self, pids: Collection[int], name: str, find: Callable[[bytes], bytes]) -> dict[int, str]:
        """Return what `find` finds in the memory of each process, "" if it has ended or does not answer in time."""
        # Imported here, because no start needs them.
        from errno import ENODATA
        from time import sleep

        paths = {pid: f"{self._proc}/{pid}/{name}" for pid in pids}
        answers = _read_memory(paths.values(), find)
        # A process in exec(2) shows nothing for a moment. Kernel threads, which never show anything, have no `exe`.
        empty = [pid for pid, path in paths.items() if path in answers and answers[path].error == ENODATA]
        if executing := [paths[pid] for pid in empty if self.link(pid, "exe")]:
            sleep(EXEC_SECONDS)
            answers |= _read_memory(executing, find)
        return {pid: answers[path].text if path in answers else "" for pid, path in paths.items()}

    def _ids(self, pid: int, field: bytes) -> list[int]:
        try:
            lines = read_file(f"{self._proc}/{pid}/status").split(b"\n")
        except OSError:
            return []
        # In the name above, which the process chooses, the kernel escapes newlines, but no carriage return.
        return next(([int(each) for each in line.split()[1:]] for line in lines if line.startswith(field)), [])

    def _has_threads(self, pid: int) -> bool:
        """Return whether threads outlive a process whose first thread has ended."""
        try:
            return len(posix.listdir(f"{self._proc}/{pid}/task")) > 1
        except OSError:
            return False


def options_in(words: list[str], *names: str) -> list[str]:
    """Return the values of an option on a command line: `--name value`, `--name=value`, or with one dash."""
    found = []
    for position, word in enumerate(words[1:], 1):
        name, equals, value = word.lstrip("-").partition("=")
        if name in names and word.startswith("-"):
            found += [value] if equals else words[position + 1 : position + 2]
    return found


def option_in(words: list[str], *names: str) -> str:
    """Return the first value of an option, "" if it is not given."""
    return next(iter(options_in(words, *names)), "")


def _read_memory(paths: Iterable[str], find: Callable[[bytes], bytes]) -> dict[str, FileAnswer]:
    """Return what `find` finds in each of the files, ENODATA if a file is empty.

    A user can lock a process's memory forever, with a FUSE file system that never answers. Reading it, as `ps` does,
    then blocks until a signal kills the reader. So a child reads it.
    """
    from errno import ENODATA

    from amdgpu_discovery.untrusted.bounded_files import read_in_child

    def read(path: str) -> str:
        content = read_file(path, largest=LARGEST_ARGUMENTS)
        if not content:
            raise OSError(ENODATA, "a process without memory")
        return find(content).decode("utf-8", "surrogateescape")

    return read_in_child([[path] for path in paths], seconds=MEMORY_SECONDS, read=read)


def _variable_in(environ: bytes, name: str) -> bytes:
    # Do not split: a list of millions of short variables would take far more memory than their text.
    text = (b"\0" + environ).rpartition(b"\0")[0]
    return text.partition(f"\0{name}=".encode())[2].partition(b"\0")[0]


def _entries_in(environ: bytes, beginnings: Iterable[str]) -> Iterator[bytes]:
    """Yield the first MOST_ENTRIES whole entries with each beginning."""
    text = (b"\0" + environ).rpartition(b"\0")[0] + b"\0"
    for beginning in beginnings:
        at = -1
        for _ in range(MOST_ENTRIES):
            at = text.find(b"\0" + beginning.encode(), at + 1)
            if at < 0:
                break
            yield text[at + 1 : text.index(b"\0", at + 1)]


def _start_in(stat: list[str]) -> int:
    """Return the start of a process in ticks, as processes in every time namespace see it."""
    return int(stat[_START]) - _ticks_ahead()


def _ticks_ahead() -> int:
    return round(ahead_of_boot() * TICKS_PER_SECOND)
