"""The limit on GPU memory that holds for a process, by its cgroup and those above."""

from __future__ import annotations

from pathlib import Path

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_discovery.usage.reading import processes_directory, read_usage
from amdgpu_simulator import load_profile

GIB = 1 << 30
# Those of GPUs 0 and 1 of four MI210; in the profile the third and the fourth have these addresses.
FIRST, SECOND = "drm/0000:03:00.0/vram", "drm/0000:26:00.0/vram"
SCOPE = "/system.slice/docker-4f.scope"


@pytest.fixture
def cgroups(simulated):
    """Return a host with a process in a container's cgroup, which uses GPU 0, and the directory of its cgroups."""
    process = SimulatedProcess(pid=3121, cgroup=SCOPE, uses=(SimulatedUse(gpu=2, vram_bytes=GIB, client_id=7),))
    host = simulated(load_profile("mi210-4").replace(processes=(process,)))
    return host, Path(host.path("/sys/fs/cgroup"))


def write(directory, **contents):
    """Write the files of the controller in a cgroup."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (directory / f"dmem.{name}").write_text(f"{content}\n")


def limit_on(host):
    """Return the limit of the process, and what counts towards it."""
    reading = read_usage(host, find_gpus(host), proc=processes_directory(host))
    return [(use.limit_bytes, use.charged_bytes) for use in reading.processes]


def test_the_limit_of_a_container_is_that_of_its_cgroup_on_the_gpu_that_the_process_uses(cgroups):
    host, directory = cgroups
    write(directory, capacity=f"{FIRST} {64 * GIB}\n{SECOND} {64 * GIB}")
    write(directory / SCOPE[1:], max=f"{FIRST} {8 * GIB}\n{SECOND} {2 * GIB}", current=f"{FIRST} {3 * GIB}\n{SECOND} 0")

    assert limit_on(host) == [(8 * GIB, 3 * GIB)]


def test_the_smallest_of_the_limits_above_a_process_counts(cgroups):
    host, directory = cgroups
    write(directory, capacity=f"{FIRST} {64 * GIB}")
    write(directory / "system.slice", max=f"{FIRST} {4 * GIB}", current=f"{FIRST} {4 * GIB}")
    write(directory / SCOPE[1:], max=f"{FIRST} {8 * GIB}", current=f"{FIRST} {GIB}")

    assert limit_on(host) == [(4 * GIB, 4 * GIB)]


@pytest.mark.parametrize("limits", ["", f"{FIRST} max", f"{SECOND} {GIB}", f"{FIRST} 8GiB", f"{FIRST} {GIB} {GIB}"])
def test_a_process_whose_gpu_has_no_number_in_its_cgroups_has_no_limit(cgroups, limits):
    host, directory = cgroups
    write(directory, capacity=f"{FIRST} {64 * GIB}")
    write(directory / SCOPE[1:], max=limits, current=f"{FIRST} {GIB}")

    assert limit_on(host) == [(None, None)]


def test_without_the_controller_no_cgroup_is_read(cgroups):
    host, directory = cgroups
    write(directory / SCOPE[1:], max=f"{FIRST} {8 * GIB}", current=f"{FIRST} {GIB}")

    assert limit_on(host) == [(None, None)]


def test_a_cgroup_outside_of_the_callers_namespace_has_no_limit(cgroups):
    host, directory = cgroups
    write(directory, capacity=f"{FIRST} {64 * GIB}")
    write(directory / "other", max=f"{FIRST} {8 * GIB}", current=f"{FIRST} {GIB}")
    Path(host.path("/proc/3121/cgroup")).write_text("0::/../other\n")

    assert limit_on(host) == [(None, None)]


def test_only_the_nearest_of_very_many_cgroups_are_read(simulated):
    """Users nest cgroups as deep as they like, and each level is two files."""
    deep = "/user.slice" + "/a" * 100
    process = SimulatedProcess(pid=3121, cgroup=deep, uses=(SimulatedUse(gpu=2, vram_bytes=GIB, client_id=7),))
    host = simulated(load_profile("mi210-4").replace(processes=(process,)))
    directory = Path(host.path("/sys/fs/cgroup"))
    write(directory, capacity=f"{FIRST} {64 * GIB}")
    write(directory / "user.slice", max=f"{FIRST} {4 * GIB}", current=f"{FIRST} {GIB}")
    write(directory / deep[1:], max=f"{FIRST} {8 * GIB}", current=f"{FIRST} {GIB}")

    assert limit_on(host) == [(8 * GIB, GIB)]
