"""Ask a question from inside a container: a child becomes like its first process, looks, and answers in JSON.

Opening a file may block, and the container may control the answer, so both have limits.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from amd_ctk.doctor.inside.process import ContainerProcess, parse_status, require_running
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import read_file

# linux/prctl.h, linux/sched.h, linux/capability.h
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
CLONE_NEWUSER = 0x10000000
CAPABILITY_VERSION = 0x20080522
LARGEST_CHILD_ANSWER = 4 * 1024 * 1024
# linux/prctl.h
PR_SET_PDEATHSIG = 1
MOST_FOUND_NAMES = 20000


def become(process: ContainerProcess, libc: ctypes.CDLL, *, own_capabilities: int) -> None:
    """Take the cgroup, root directory, user namespace, ids and capabilities of a process; OSError.

    This fails if the process has ended, or if its device cgroup is unknown. `own_capabilities` is the mask of the
    caller's permitted capabilities.
    """
    # A container with the host's pid namespace must not trace this child, which has more rights than the container.
    _call(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    namespace = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY) if process.uid_inside is not None else -1
    root = os.open(f"/proc/{process.pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    # Check after opening both: if the process is still running, the descriptors do not belong to another process.
    require_running(process.identity)
    _join(process.cgroups)
    # From here on, an import would load the container's own files.
    sys.meta_path.clear()
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    os.setgroups(process.groups)
    os.setresgid(process.gid, process.gid, process.gid)
    uid = process.uid
    if process.uid_inside is not None:
        # Joining the namespace gives every capability inside it and none outside.
        _call(libc.setns, namespace, CLONE_NEWUSER)
        os.close(namespace)
        uid = process.uid_inside
        own_capabilities = ~0
    _call(libc.prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(uid, uid, uid)
    _set_capabilities(libc, process.capabilities & own_capabilities)


def _join(cgroups: tuple[str, ...]) -> None:
    if not cgroups:
        raise OSError("its device cgroup was not found")
    for directory in cgroups:
        descriptor = os.open(f"{directory}/cgroup.procs", os.O_WRONLY)
        try:
            os.write(descriptor, b"0")
        finally:
            os.close(descriptor)


def _set_capabilities(libc: ctypes.CDLL, mask: int) -> None:
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32 & 0xFFFFFFFF
    _call(libc.capset, header, struct.pack("6I", low, low, 0, high, high, 0))


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class NoAnswer(ToolkitError):
    """A container that could not be entered, or a device or file system that does not answer."""


def ask_inside(process: ContainerProcess, probe: Callable[[int], dict[str, Any]], deadline: float) -> dict[str, Any]:
    """Return what `probe` returns in a child that is like a process; NoAnswer. Call it while there are no threads.

    `probe` gets the result of `open_own_files`. `deadline` is a time of time.monotonic().
    """
    # Load libc before the fork, because the child cannot import: see become.
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(lambda: _enter(process, probe, libc, parent), json.dumps, writer)
    os.close(writer)
    try:
        answer = json.loads(_read_until(reader, deadline))
    except ValueError as error:
        raise NoAnswer("nothing inside answers in time") from error
    finally:
        os.close(reader)
        _end(child)
    if "problem" in answer:
        raise NoAnswer(str(answer["problem"]))
    found: dict[str, Any] = answer
    return found


def _answer(ask: Callable[[], dict[str, Any]], write_json: Callable[[object], str], writer: int) -> None:
    """Run as the child; never return."""
    try:
        os.dup2(writer, 1)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(2, 65536)
        _write(write_json(ask()))
    except BaseException as error:
        _write(write_json({"problem": f"{type(error).__name__}: {error}"}))
    finally:
        os._exit(0)


def _enter(process: ContainerProcess, probe: Callable[[int], dict[str, Any]], libc: Any, parent: int) -> dict[str, Any]:
    own_files = open_own_files()
    _prefer_as_oom_victim()
    own = int(parse_status(read_file("/proc/self/status").decode())["CapPrm"], 16)
    try:
        become(process, libc, own_capabilities=own)
    except OSError as error:
        return {"problem": f"it cannot be entered: {reason(error)}"}
    # Set this last, because a change of ids makes the kernel clear it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    return probe(own_files)


def _prefer_as_oom_victim() -> None:
    """Have the kernel kill this child first if memory runs out, also in the container's cgroup."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _write(text: str) -> None:
    rest = text.encode()
    while rest:
        rest = rest[os.write(1, rest) :]


def _read_until(reader: int, deadline: float) -> bytes:
    """Return what is written until the other side closes the pipe, b"" if that is too late or too much."""
    content = b""
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reader, 65536)
        content += chunk
        if not chunk:
            return content
        if len(content) > LARGEST_CHILD_ANSWER:
            break
    return b""


def _end(child: int) -> None:
    # A child that waits in the driver for a hung GPU cannot be killed, so do not wait long for its end.
    os.kill(child, signal.SIGKILL)
    for _ in range(50):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.002)


def open_own_files() -> int:
    """Return the directory through which this process reopens its descriptors, even after chroot."""
    return os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


# Opening a device may already act, as with a watchdog, so first look at what the path leads to. The path may lead
# elsewhere after that, so reopen the same descriptor.
@contextmanager
def held(path: str) -> Iterator[int]:
    """Give a descriptor of what an absolute path leads to, without opening it; OSError.

    Links are resolved by their text alone: in /proc, a link could lead out of the root directory through a descriptor.
    """
    handle = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in os.path.realpath(path).split("/")[1:]:
            above, handle = handle, os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(above)
        yield handle
    finally:
        os.close(handle)


def reopen(handle: int, flags: int, own_files: int) -> int:
    """Open the descriptor that `held` gave, and return the new one; OSError."""
    return os.open(str(handle), flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=own_files)


def names_below(path: str, most: int = MOST_FOUND_NAMES) -> list[str]:
    """Return the names in a directory of the container, at most `most`; [] if it cannot be listed."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in islice(entries, most))
    except OSError:
        return []
