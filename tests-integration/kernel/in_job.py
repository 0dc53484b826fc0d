#!/usr/bin/python3
"""Run a command in a cgroup whose device filter refuses 226:128 and allows the rest, as Slurm filters jobs.

Runs in the machine, with its python and without this project.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

CGROUP = "/sys/fs/cgroup/job"
DRM, REFUSED = 226, 128
# From linux/bpf.h and the table of system calls of x86-64.
BPF = 321
LOAD_PROGRAM, ATTACH_PROGRAM = 5, 8
OF_DEVICES, ON_DEVICE = 15, 6
LOAD, UNLESS_EQUAL, SET, EXIT = 0x61, 0x55, 0xB7, 0x95
# Where a request's numbers are, in what the first register points to.
MAJOR, MINOR = 4, 8


def step(code: int, *, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Return an instruction."""
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


PROGRAM = (
    step(LOAD, to=2, of=1, offset=MAJOR),
    # To the last two, which allow it.
    step(UNLESS_EQUAL, to=2, offset=4, value=DRM),
    step(LOAD, to=2, of=1, offset=MINOR),
    step(UNLESS_EQUAL, to=2, offset=2, value=REFUSED),
    step(SET, value=0),
    step(EXIT),
    step(SET, value=1),
    step(EXIT),
)


def main() -> None:
    """Load the filter, enter the cgroup and become the command."""
    instructions, licence = ctypes.create_string_buffer(b"".join(PROGRAM)), ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(instructions), ctypes.addressof(licence)
    program = call_bpf(LOAD_PROGRAM, "<IIQQ", OF_DEVICES, len(PROGRAM), *addresses)
    os.makedirs(CGROUP, exist_ok=True)
    call_bpf(ATTACH_PROGRAM, "<IIII", os.open(CGROUP, os.O_RDONLY), program, ON_DEVICE, 0)
    with open(f"{CGROUP}/cgroup.procs", "w", encoding="ascii") as processes:
        processes.write(f"{os.getpid()}")
    os.execvp(sys.argv[1], sys.argv[1:])


def call_bpf(command: int, layout: str, *fields: int) -> int:
    """Call the kernel; OSError."""
    attributes = struct.pack(layout, *fields).ljust(128, b"\0")
    answer = ctypes.CDLL(None, use_errno=True).syscall(BPF, command, attributes, len(attributes))
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}")
    return int(answer)


if __name__ == "__main__":
    main()
