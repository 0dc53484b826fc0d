"""What AMD's own tools show inside containers, of two Debian releases, over a simulated host that lies under /sys."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.simulate import build_host
from support.busybox import pack
from support.debian_root import make_root

pytestmark = [pytest.mark.e2e, pytest.mark.images, pytest.mark.timeout(3600)]

KFD_NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
# kfd_topology.c, node_show: each is EPERM for who may not open the render node.
HIDDEN = ("gpu_id", "properties")
TOOLS = ("rocm-smi", "rocminfo", "python3")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Return four MI210 with what rocm-smi takes for the sign of a GPU."""
    return build(tmp_path_factory.mktemp("whole"))


def build(directory):
    built = build_host(directory / "host", "mi210-4")
    for gpu in locate_gpus(built):
        Path(built.path(f"/sys/class/drm/renderD{gpu.render_minor}/device/vbios_version")).write_text(
            "113-D67301-063\n"
        )
    return built


@pytest.fixture(scope="module")
def sys_for(tmp_path_factory):
    """Return a function that makes a /sys whose KFD shows these GPUs to everybody.

    Of the others the device cgroup decides who may read, as in the kernel.
    """

    def make(numbers):
        built = build(tmp_path_factory.mktemp("hiding"))
        for gpu in locate_gpus(built):
            if gpu.number not in numbers:
                for name in HIDDEN:
                    path = built.path(f"{KFD_NODES}/{gpu.kfd_node}/{name}")
                    os.unlink(path)
                    os.mknod(path, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))
        return built.path("/sys")

    return make


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def release(request):
    """Return the name of a release: rocm-smi is 5.2 in the first, 6.1 in the second."""
    return request.param


@pytest.fixture(scope="module")
def show(release, tmp_path_factory, start_docker, host):
    """Return a function that runs a tool in a container that has these GPUs."""
    root = make_root(f"amd-tools-{release}", release, *TOOLS)
    docker = start_docker(host.root)
    docker.import_image(pack(root, tmp_path_factory.mktemp("image") / "tools.tar"), "tools:local")

    def run(gpus, sys, *command):
        options = ("--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}", f"--volume={sys}:/sys:ro")
        return docker.output(*options, image="tools:local", command=command)

    return run


# A container's GPUs, and their addresses in the order of the driver's cards.
GPUS = [
    ("all", {0, 1, 2, 3}, ["0000:63:00.0", "0000:43:00.0", "0000:03:00.0", "0000:26:00.0"]),
    ("1-2", {1, 2}, ["0000:43:00.0", "0000:26:00.0"]),
    ("3", {3}, ["0000:63:00.0"]),
    ("none", set(), []),
]


@pytest.mark.parametrize(("gpus", "numbers", "addresses"), GPUS, ids=[gpus for gpus, *_ in GPUS])
def test_rocm_smi_shows_the_gpus_of_its_container_and_counts_them_from_0(
    show, release, sys_for, gpus, numbers, addresses
):
    said = show(gpus, sys_for(numbers), "rocm-smi", "--showbus")

    found = re.findall(r"^GPU\[(\d)\]\s*: PCI Bus: (\S+)$", said, re.MULTILINE)
    # Later ones count in the order of PCI addresses, as this toolkit does.
    in_order = addresses if release == "bookworm" else sorted(addresses)
    assert found == [(str(position), address) for position, address in enumerate(in_order)]


@pytest.mark.parametrize(("gpus", "numbers", "addresses"), GPUS, ids=[gpus for gpus, *_ in GPUS])
def test_rocm_agent_enumerator_names_the_targets_of_the_gpus_of_its_container(show, sys_for, gpus, numbers, addresses):
    said = show(gpus, sys_for(numbers), "rocm_agent_enumerator")

    # Where KFD shows no GPU it asks lspci, which shows those of the host.
    assert said.split() == ["gfx000"] + ["gfx90a"] * (len(addresses) or 4)


def test_without_a_kernel_that_hides_gpus_rocm_smi_shows_all_of_the_host(show, host):
    said = show("3", host.path("/sys"), "rocm-smi", "--showbus")

    assert said.count("PCI Bus: ") == 4
