"""A FUSE file system that a user serves and that never answers writes; no signal ends a waiting writer.

It is mounted the way fusermount3 does it for users. Source: linux/fuse.h.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.other_user import become

LOOKUP, GETATTR, OPEN, READ, INIT = 1, 3, 14, 15, 26
WRITE = 16
# These take no answer: FORGET, INTERRUPT, BATCH_FORGET. WRITE gets none, so that it waits.
UNANSWERED = frozenset((2, 36, 42, WRITE))
ENOENT, ENOSYS = 2, 38
FILE, SIZE, LONG = 2, 4096, 100_000
HEADER = 40
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
PR_SET_PDEATHSIG = 1


def can_mount() -> bool:
    """Return whether this process may mount such a file system."""
    return os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK) and os.system("unshare -m true 2>/dev/null") == 0


@contextmanager
def mute_file(directory: str, uid: int) -> Iterator[str]:
    """Yield the path of a file that only this user may open; a process of the user serves it."""
    with _mounted(directory, uid, b"", "") as path:
        yield path


@contextmanager
def mute_program(directory: str, uid: int, program: str) -> Iterator[str]:
    """Yield the path of a copy of a program that everybody may run; its attributes end when `mute` is looked up.

    Users may mount this where /etc/fuse.conf has `user_allow_other`.
    """
    with open(program, "rb") as file, _mounted(directory, uid, file.read(), ",allow_other") as path:
        yield path


@contextmanager
def mute_mount(path: str, uid: int) -> Iterator[None]:
    """Mount a file system on a directory or a file. Root may enter it, and nothing is answered."""
    with _mounted(path, uid, b"", ",allow_other", answers_all=False):
        yield


@contextmanager
def slow_mount(path: str, uid: int, seconds: float) -> Iterator[None]:
    """Mount a file system that root may enter. After some seconds, it answers that there is no such file."""
    with _mounted(path, uid, b"", ",allow_other", seconds=seconds):
        yield


@contextmanager
def _mounted(
    path: str, uid: int, content: bytes, option: str, *, answers_all: bool = True, seconds: float = 0
) -> Iterator[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    mode = stat.S_IFMT(os.stat(path).st_mode)
    options = f"fd={device},rootmode={mode:o},user_id={uid},group_id={uid}{option}".encode()
    if libc.mount(b"mute", os.fsencode(path), b"fuse.mute", MS_NOSUID | MS_NODEV, options):
        raise OSError(ctypes.get_errno(), "mount")
    server = os.fork()
    if not server:
        become(uid)
        # Even if the test dies, the server must end, because nothing else can end a waiting writer.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _serve(device, uid, content, answers_all=answers_all, seconds=seconds)
    os.close(device)
    try:
        yield f"{path}/file"
    finally:
        # This releases waiting writers, because nobody has the device open any more.
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        libc.umount2(os.fsencode(path), MNT_DETACH)


def lock_memory(path: str) -> None:
    """Block with this process's memory locked until the file system answers, that is, forever."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    opened = os.open(path, os.O_RDWR)
    # PROT_READ | PROT_WRITE, MAP_SHARED; then MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS in its place.
    mapped = libc.mmap(None, SIZE, 3, 1, opened, 0)
    ctypes.memset(mapped, 1, SIZE)
    libc.mmap(mapped, SIZE, 3, 0x32, -1, 0)


def _serve(device: int, uid: int, content: bytes, *, answers_all: bool, seconds: float) -> None:
    size, unanswered = len(content) or SIZE, UNANSWERED
    # The kernel keeps the attributes of a program for no time, and asks for them at every call.
    valid = 0 if content else LONG
    while True:
        request = os.read(device, 1 << 20)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        if operation in unanswered or not (answers_all or operation == INIT):
            continue
        if operation == LOOKUP and request[HEADER:] == b"mute\0":
            unanswered = UNANSWERED | {LOOKUP, GETATTR}
            operation = 0
        offset, length = struct.unpack_from("<8xQI", request, HEADER) if operation == READ else (0, 0)
        attributes = _attributes(node, uid, size)
        answers = {
            INIT: struct.pack("<4I2H2I8I", 7, 31, 65536, 0, 0, 0, 131072, 1, *[0] * 8),
            LOOKUP: struct.pack("<QQQQII", FILE, 0, valid, valid, 0, 0) + _attributes(FILE, uid, size),
            GETATTR: struct.pack("<QII", valid, 0, 0) + attributes,
            OPEN: struct.pack("<QII", 1, 0, 0),
            READ: content[offset : offset + length] or bytes(SIZE),
        }
        answer = answers.get(operation)
        error = -ENOSYS if answer is None else 0
        if seconds and operation == LOOKUP:
            time.sleep(seconds)
            answer, error = None, -ENOENT
        os.write(device, struct.pack("<IiQ", 16 + len(answer or b""), error, unique) + (answer or b""))


def _attributes(node: int, uid: int, size: int) -> bytes:
    mode = 0o100755 if node == FILE else 0o40755
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, uid, uid, 0, SIZE, 0)
