"""Reads files that may never answer, in a child process that is abandoned when its time runs out.

A driver that hangs keeps a reader in the kernel, where no signal reaches it. A thread that reads would keep its whole
process from ending.
"""

from __future__ import annotations

# `signal` itself imports `enum`, which takes longer than the reading.
import _signal as signal  # type: ignore[import-not-found]  # typeshed does not know it
import errno
import os
import select
import time

from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[str], str]

# An attribute has a page at most, except for the list of bad pages (34 bytes each) and files on a simulated host.
LARGEST_ATTRIBUTE = 256 * 1024
LARGEST_PIECE = 64 * 1024
SHORTEST_WAIT = 0.01
# The kernel's limit for a process that did not ask for more (NR_OPEN of fs.h).
MOST_OPEN_FILES = 1024 * 1024
# Children that may not have ended yet.
UNREAPED: list[int] = []


class FileAnswer(Value):
    """The result of reading a file: its text, or the number of the error (`errno`); ETIMEDOUT if it did not answer."""

    text: str = ""
    error: int = 0


def read_attribute(path: str) -> str:
    """Return the text of an attribute, up to LARGEST_ATTRIBUTE bytes. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < LARGEST_ATTRIBUTE and (more := os.read(descriptor, LARGEST_ATTRIBUTE)):
            content += more
    finally:
        os.close(descriptor)
    return content[:LARGEST_ATTRIBUTE].decode("utf-8", "replace").strip()


def read_in_child(
    groups: Sequence[Sequence[str]], *, seconds: float, read: Read = read_attribute
) -> dict[str, FileAnswer]:
    """Return the answer of each file, within `seconds` in all. If a file hangs, the rest of its group is skipped.

    `read`, which the child calls for each file, returns the text of interest or raises OSError.
    """
    answers: dict[str, FileAnswer] = {}
    left = [list(group) for group in groups if group]
    until = time.monotonic() + seconds
    while left:
        known = len(answers)
        hanging = _read_with_one_child([path for group in left for path in group], answers, until, read)
        if hanging is None and len(answers) == known:
            # The child ended before it read anything.
            break
        if hanging is not None:
            answers[hanging] = FileAnswer(error=errno.ETIMEDOUT)
            left = [group for group in left if hanging not in group]
        left = [[path for path in group if path not in answers] for group in left]
        left = [group for group in left if group]
        if time.monotonic() >= until:
            # Files that were not read are unknown, which is not a sign of a fault.
            break
    return answers


def _read_with_one_child(paths: Sequence[str], answers: dict[str, FileAnswer], until: float, read: Read) -> str | None:
    """Add the answers of one child; return the path at which it hangs, None if it is done."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _answer(paths, writer, read)
    os.close(writer)
    try:
        return _collect(reader, pid, paths, answers, until)
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        _reap(pid, has_answered=all(path in answers for path in paths))


def _reap(pid: int, *, has_answered: bool) -> None:
    """Reap a child that was killed, and earlier ones, without waiting for those that may be in the kernel for ever.

    Several threads may run this at the same time. Only the thread that took a pid from the list may wait for it.
    """
    pids = [] if _has_ended(pid, wait=has_answered) else [pid]
    while True:
        try:
            pids.append(UNREAPED.pop())
        except IndexError:
            # Another thread may have taken the last one.
            break
    UNREAPED.extend(each for each in pids if not _has_ended(each))


def _has_ended(pid: int, *, wait: bool = False) -> bool:
    try:
        return os.waitpid(pid, 0 if wait else os.WNOHANG) != (0, 0)
    except ChildProcessError:
        # This is no child of this process, or the kernel was told not to keep children that end.
        return True


def _answer(paths: Sequence[str], writer: int, read: Read) -> None:
    """Write a line of JSON for each file, then exit: this process must not return to the caller's code."""
    try:
        # Ctrl-C and the like are for the caller, which ends this process by a signal that cannot be blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        # This process may hang for ever, and would hold every lock that the caller has open.
        os.closerange(3, writer)
        os.closerange(writer + 1, MOST_OPEN_FILES)
        for path in paths:
            os.write(writer, dumps(_read(path, read)) + b"\n")
    finally:
        os._exit(0)


def _read(path: str, read: Read) -> list[object]:
    try:
        return [0, read(path)]
    except OSError as error:
        return [error.errno or errno.EIO, ""]


def _collect(reader: int, pid: int, paths: Sequence[str], answers: dict[str, FileAnswer], until: float) -> str | None:
    count, rest = 0, b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    # One file may take half of the remaining time, so that the others have a chance.
    while count < len(paths):
        now = time.monotonic()
        if not poll.poll(max(0.0, (until - now) / 2, SHORTEST_WAIT if now < until else 0.0) * 1000):
            if not _is_runnable(pid):
                return paths[count]
            if now >= until:
                return None
            continue
        more = os.read(reader, LARGEST_PIECE)
        if not more:
            return None
        *lines, rest = (rest + more).split(b"\n")
        for line in lines:
            error, text = loads(line)
            answers[paths[count]] = FileAnswer(text=text, error=error)
            count += 1
    return None


def _is_runnable(pid: int) -> bool:
    """Return whether a process only waits for a processor, as on an overloaded machine: then nothing hangs."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"R"]
    except OSError:
        return False
