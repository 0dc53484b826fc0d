"""Ask a question from inside a container: a child becomes like its first process, looks, and answers in JSON.

What it opens may keep it waiting, and what it answers may come from the container, so both have limits.
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
from typing import Any

from amd_ctk.doctor.inside.process import ContainerProcess, parse_status, require_running
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import read_file

# linux/prctl.h, linux/sched.h, linux/capability.h
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
CLONE_NEWUSER = 0x10000000
CAPABILITY_VERSION = 0x20080522
LARGEST_ANSWER = 4 * 1024 * 1024
# linux/prctl.h
PR_SET_PDEATHSIG = 1


def become(process: ContainerProcess, libc: ctypes.CDLL, *, own_capabilities: int) -> None:
    """Take the cgroup, root directory, user namespace, ids and capabilities of a process; OSError.

    That is refused where the process has ended, or where no device cgroup is known. `own_capabilities` is the mask of
    what the caller is permitted.
    """
    # A container with the host's pid namespace must not trace a process that holds more than it does.
    _call(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    namespace = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY) if process.uid_inside is not None else -1
    root = os.open(f"/proc/{process.pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    # Of both descriptors: if it runs now, they are not another process's.
    require_running(process.identity)
    _join(process.cgroups)
    # Whatever is imported from here on would be the container's own file.
    sys.meta_path.clear()
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    os.setgroups(process.groups)
    os.setresgid(process.gid, process.gid, process.gid)
    uid = process.uid
    if process.uid_inside is not None:
        # It brings every capability there and none outside.
        _call(libc.setns, namespace, CLONE_NEWUSER)
        os.close(namespace)
        uid, own_capabilities = process.uid_inside, ~0
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


def ask_inside(process: ContainerProcess, look: Callable[[int], dict[str, Any]], deadline: float) -> dict[str, Any]:
    """Return what `look` returns in a child that is like a process; NoAnswer. Call it while there are no threads.

    `look` is given what `open_own_files` gave. The answer is waited for until `deadline`, as time.monotonic() counts.
    """
    # Before the child exists, because it cannot import: see become.
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(lambda: _look(process, look, libc, parent), json.dumps, writer)
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
    """Be the child; it never returns."""
    try:
        os.dup2(writer, 1)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(2, 65536)
        _say(write_json(ask()))
    except BaseException as error:
        _say(write_json({"problem": f"{type(error).__name__}: {error}"}))
    finally:
        os._exit(0)


def _look(process: ContainerProcess, look: Callable[[int], dict[str, Any]], libc: Any, parent: int) -> dict[str, Any]:
    own_files = open_own_files()
    _be_ended_first()
    own = int(parse_status(read_file("/proc/self/status").decode())["CapPrm"], 16)
    try:
        become(process, libc, own_capabilities=own)
    except OSError as error:
        return {"problem": f"it cannot be entered: {reason(error)}"}
    # Not before: a change of ids makes the kernel forget it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    return look(own_files)


def _be_ended_first() -> None:
    """Where memory runs out, in the container's cgroup too, end before what runs there."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _say(text: str) -> None:
    rest = text.encode()
    while rest:
        rest = rest[os.write(1, rest) :]


def _read_until(reader: int, deadline: float) -> bytes:
    """Return what is written until the other side closes it, b"" where it takes longer or is too much."""
    content = b""
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reader, 65536)
        content += chunk
        if not chunk:
            return content
        if len(content) > LARGEST_ANSWER:
            break
    return b""


def _end(child: int) -> None:
    # One that waits in the driver for a GPU that hangs cannot be ended, and is not waited for.
    os.kill(child, signal.SIGKILL)
    for _ in range(50):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.002)


def open_own_files() -> int:
    """Return the directory by which this process, also with another root directory, opens its descriptors again."""
    return os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


# Opening a device may already act, as it does with a watchdog, so what a path leads to is looked at first. It may lead
# elsewhere between the two, so what was looked at is opened again by its descriptor.
@contextmanager
def held(path: str) -> Iterator[int]:
    """Give a descriptor of what an absolute path leads to, which is not opened; OSError.

    Links are followed by their text alone: one in /proc could lead by a descriptor out of the root directory.
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
    """Open what `held` gave, and return the new descriptor; OSError."""
    return os.open(str(handle), flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=own_files)
