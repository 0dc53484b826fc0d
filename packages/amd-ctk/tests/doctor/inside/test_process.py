"""What /proc says of a container's first process."""

from __future__ import annotations

import os
import subprocess

import pytest

from amd_ctk.doctor.inside.process import (
    CannotEnter,
    find_cgroup_mounts,
    find_cgroups,
    parse_locked_memory,
    read_process,
    translate_id,
)
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.untrusted.mounts import parse_mounts

VERSION_1 = """\
29 23 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 29 0:31 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
36 29 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
39 29 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
VERSION_2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
OF_A_CONTAINER = "12:devices:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/system.slice/docker-0123.scope\n"


@pytest.mark.parametrize(
    ("mountinfo", "cgroups"),
    [
        (VERSION_1, ["/sys/fs/cgroup/devices/docker/0123"]),
        (VERSION_2, ["/sys/fs/cgroup/system.slice/docker-0123.scope"]),
        ("", []),
    ],
    ids=["version 1 beside 2", "version 2", "none"],
)
def test_the_cgroup_that_decides_about_devices_is_found(mountinfo, cgroups):
    assert find_cgroups(OF_A_CONTAINER, find_cgroup_mounts(parse_mounts(mountinfo.encode()))) == cgroups


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ("Max locked memory         8388608              8388608              bytes     \n", 8388608),
        ("Max locked memory         unlimited            unlimited            bytes     \n", None),
        ("", None),
    ],
)
def test_the_limit_of_locked_memory_is_read(limits, size):
    assert parse_locked_memory(f"Limit Soft Hard Units\n{limits}") == size


@pytest.mark.parametrize(("number", "inside"), [(100000, 0), (101000, 1000), (5, None), (165536, None)])
def test_an_id_is_translated_into_a_user_namespace(number, inside):
    assert translate_id(number, "0 100000 65536\n") == inside


def test_this_process_is_read():
    process = read_process(Processes().myself())

    assert (process.uid, process.gid, process.uid_inside) == (os.geteuid(), os.getegid(), None)
    assert set(process.groups) == set(os.getgroups())


@pytest.fixture
def unmapped():
    """Return the id of a process whose user namespace has no map."""
    words = ["unshare", "--user", "sh", "-c", "echo there; exec sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if process.stdout.readline() != "there\n":
            pytest.skip(f"no user namespace can be made: {process.stderr.read().strip()}")
        yield process.pid
        process.kill()


def test_a_user_namespace_without_a_map_is_not_taken_for_the_callers(unmapped):
    with pytest.raises(CannotEnter, match="its user namespace does not map its user"):
        read_process(Processes().find(unmapped))
