"""What limits the devices of processes in the virtual machine: systemd's DeviceAllow=, and a job's own program."""

from __future__ import annotations

import textwrap

from kernel.containers import SECOND

# Of a service that may use GPU 1 alone. Card nodes are in the CDI spec and in what the runtime gives.
NODES = ("/dev/kfd", "/dev/dri/card1", SECOND)
IN_SERVICE = "systemd-run --quiet --wait --pipe -p DevicePolicy=closed " + " ".join(
    f"-p 'DeviceAllow={node} rw'" for node in NODES
)
# What Slurm does on hosts with cgroup version 2 alone: a program that refuses the GPUs of others and allows the rest.
JOB = "/usr/local/sbin/in-job"
IN_JOB = textwrap.dedent(
    """\
    #!/usr/bin/python3
    # Run a command in a cgroup whose device filter refuses 226:128 and allows everything else.
    import ctypes, os, struct, sys
    ALLOW = 6
    def step(code, to=0, of=0, offset=0, value=0):
        return struct.pack("<BBhi", code, to | of << 4, offset, value)
    def unless(number, position):
        return step(0x55, 2, offset=ALLOW - position - 1, value=number)
    program = b"".join((
        step(0x61, 2, 1, 4), unless(226, 1), step(0x61, 2, 1, 8), unless(128, 3), step(0xb7), step(0x95),
        step(0xb7, value=1), step(0x95),
    ))
    libc = ctypes.CDLL(None, use_errno=True)
    def bpf(command, *fields):
        attributes = struct.pack(*fields).ljust(128, bytes(1))
        answer = libc.syscall(321, command, attributes, len(attributes))
        if answer < 0:
            raise OSError(ctypes.get_errno(), f"bpf command {command}")
        return answer
    instructions, licence = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"GPL")
    loaded = bpf(5, "<IIQQ", 15, len(program) // 8, ctypes.addressof(instructions), ctypes.addressof(licence))
    cgroup = "/sys/fs/cgroup/job"
    os.makedirs(cgroup, exist_ok=True)
    bpf(8, "<IIII", os.open(cgroup, os.O_RDONLY), loaded, 6, 0)
    with open(f"{cgroup}/cgroup.procs", "w") as processes:
        processes.write(str(os.getpid()))
    os.execvp(sys.argv[1], sys.argv[1:])
    """
)
