"""What a test may need that root has on a machine, and lacks in a container without --privileged.

`pytest.mark.needs("namespaces")` skips the test where that is missing; `pytest -m needs` runs such tests by name.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

# From linux/capability.h.
CAP_SYS_PTRACE = 19
CGROUP_ROOT = Path("/sys/fs/cgroup")


def _is_root() -> bool:
    return os.geteuid() == 0


def _may_make_namespaces() -> bool:
    command = ["unshare", "--mount", "--pid", "--fork", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _may_look_at_users() -> bool:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) >> CAP_SYS_PTRACE & 1)


def _may_make_cgroups() -> bool:
    # cgroup v1 has a directory for each controller, below one that may be read-only on any machine.
    controller = CGROUP_ROOT / "devices"
    return os.access(controller if controller.is_dir() else CGROUP_ROOT, os.W_OK)


OBSTACLES: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (_is_root, "only root's simulated hosts belong to root, and only root's name is left out of messages"),
    "namespaces": (_may_make_namespaces, "root may make no namespaces here: CAP_SYS_ADMIN is missing"),
    "users' processes": (_may_look_at_users, "root may not look at users' processes here: CAP_SYS_PTRACE is missing"),
    "cgroups": (_may_make_cgroups, "root may make no cgroups here: they are read-only"),
}


@cache
def find_obstacle(privilege: str) -> str:
    """Return why a test that needs this privilege cannot run here, "" if it can.

    What other users lack of the rest, tests find out themselves.
    """
    has, why = OBSTACLES[privilege]
    return "" if has() or (os.geteuid() and privilege != "root") else why
