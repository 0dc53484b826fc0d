"""What limits the devices of processes in the virtual machine: systemd's DeviceAllow=, and a job's own filter."""

from __future__ import annotations

from pathlib import Path

from kernel.containers import FIRST, SECOND
from kernel.machine import Machine

# Of a service that may use GPU 1 alone; its card node is in what the runtime gives.
NODES = ("/dev/kfd", "/dev/dri/card1", SECOND)
IN_SERVICE = "systemd-run --quiet --wait --pipe -p DevicePolicy=closed " + " ".join(
    f"-p 'DeviceAllow={node} rw'" for node in NODES
)
IN_JOB = "/usr/local/sbin/in-job"
# On this one GPU 0 says nothing to who may not open its node, as KFD does.
LIMITED_HOST = "/srv/limited"
OPEN_BOTH = f"sh /srv/rootfs/bin/open-nodes {FIRST} {SECOND}"


def install_job(machine: Machine) -> None:
    """Install what runs a command in a job's cgroup."""
    program = Path(__file__).with_name("in_job.py").read_text(encoding="utf-8")
    machine.run(f"cat >{IN_JOB} <<'END'\n{program}END\nchmod 755 {IN_JOB}")
