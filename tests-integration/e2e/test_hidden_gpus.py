"""GPUs that a real device cgroup hides, which the kernel says by EPERM as for the nodes of KFD."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from support.installed import our_program, require_root

pytestmark = pytest.mark.e2e

HIERARCHY = Path("/sys/fs/cgroup/devices")
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
# What any program needs: null, zero, urandom.
ALLOWED = ("c 1:3 rwm", "c 1:5 rwm", "c 1:9 rwm")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return four MI210 of which the first two have KFD nodes that only their render nodes' users may read."""
    host = build_host(tmp_path / "host", "mi210-4")
    require_root()
    for gpu in locate_gpus(host)[:2]:
        path = host.path(f"{NODES}/{gpu.kfd_node}/properties")
        os.unlink(path)
        # The device cgroup decides about opening it, before anything asks whether there is such a device.
        os.mknod(path, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))
    return host


@pytest.fixture
def in_a_job(host: Host) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Return a function that runs a program of the toolkit in a device cgroup without any GPU's render node."""
    if not (HIERARCHY / "devices.list").exists():
        pytest.skip(f"{HIERARCHY} is not there: device cgroups of the second version are programs for the kernel")
    job = HIERARCHY / f"amd-container-toolkit-test-{os.getpid()}"
    job.mkdir()
    (job / "devices.deny").write_text("a *:* rwm")
    for rule in ALLOWED:
        (job / "devices.allow").write_text(rule)

    def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
        enter = ("sh", "-c", f'echo $$ >{job}/cgroup.procs && exec "$@"', "sh")
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
        return subprocess.run(
            [*enter, our_program(program), *words], env=environment, capture_output=True, text=True, check=False
        )

    yield run
    job.rmdir()


def test_the_others_have_the_numbers_of_the_host(in_a_job: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    answer = in_a_job("amd-ctk", "gpu", "list")

    assert [line.split() for line in answer.stdout.splitlines()[4:]] == [
        ["2", "0x6E32F10EFC982B4C", "/dev/dri/renderD129"],
        ["3", "0x12FE4F7FDAF06B9", "/dev/dri/renderD128"],
    ]
    assert "GPUs 0, 1 are hidden from this process by its device cgroup\n" in answer.stderr


def test_no_spec_is_written_for_the_host(host: Host, in_a_job: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    answer = in_a_job("amd-ctk", "cdi", "generate")

    assert "2 of 4 GPUs are hidden from this process by its device cgroup" in answer.stderr
    assert answer.returncode == 1
    assert not os.path.exists(host.path("/etc/cdi/amd.json"))
