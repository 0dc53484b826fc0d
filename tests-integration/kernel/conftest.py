"""Virtual machines with kernels of Debian releases and one of our own, our debs, and a simulated host."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host, load_profile
from kernel.containers import ON_SIMULATED_HOST, SCRIPTS
from kernel.engines import NO_NETWORK, RUN_IN_DOCKER, Run, add_user, prepare_podman, start_docker
from kernel.image import kernel_image
from kernel.machine import FILES, Machine
from support.busybox import build_rootfs, pack
from support.debs import META_PACKAGE, build_debs
from support.installed import require_programs, require_root
from support.matrix import Matrix

SUITES = ("bookworm", "trixie", "forky")
TODAY = datetime.now(tz=timezone.utc).date()
MATRIX = Matrix(
    "kernel",
    {
        "bookworm": ("Debian 12", f"Linux 6.1, systemd 252<br>{TODAY}"),
        "trixie": ("Debian 13", f"Linux 6.12, systemd 257<br>{TODAY}"),
        "forky": ("Debian 14 (testing)", f"Linux 7.2, systemd 261<br>{TODAY}"),
        "test_memory_limits.py": ("the `dmem` cgroup", f"Linux 7.3, systemd 262, Docker 28.5<br>{TODAY}"),
        "test_limits_by_crun.py": (
            "the `dmem` cgroup, crun",
            f"Linux 7.3, systemd 262, crun 1.28, Podman 5.8, Docker 28.5<br>{TODAY}",
        ),
    },
)
# Of the two GPUs: what virtio-gpu and vgem get when they are loaded in this order.
MINORS = ((0, 128), (1, 129))
# KFD has another number at every boot.
LOAD_DRIVER = """
modprobe amdgpu && modprobe vgem && udevadm settle
for simulated in /srv/*/sys/class/kfd/kfd/dev; do cat /sys/class/kfd/kfd/dev >$simulated; done
"""
KFD_NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
REAL_NODE = "/sys/class/drm/renderD128"
# Above the root of a file system there is the root.
DEEPEST = 16
PROGRAMS = ("qemu-system-x86_64", "mkfs.ext4", "debootstrap", "depmod", "modprobe", "cpio")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what became of a test."""
    return (yield from MATRIX.watch(item))


def pytest_sessionfinish() -> None:
    """Write docs/maintain/test-results.md if asked for."""
    MATRIX.write_if_asked("AMD_KERNELS_PAGE")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return what every machine is started with: debs, a root file system for containers, and a simulated host."""
    require_root()
    require_programs(*PROGRAMS)
    directory = tmp_path_factory.mktemp("files")
    rootfs = build_rootfs(directory / "rootfs")
    for name, text in SCRIPTS.items():
        (rootfs / "bin" / name).write_text(text)
        (rootfs / "bin" / name).chmod(0o755)
    return {
        "debs": build_debs(directory / "debs"),
        "rootfs": rootfs,
        "rootfs.tar": pack(rootfs, directory / "rootfs.tar"),
        "host": build_two_gpus(directory / "host"),
        "bundles": build_two_gpus(directory / "bundles"),
        "untracked": build_two_gpus(directory / "untracked"),
        "laid": build_two_gpus(directory / "laid", bare=False),
        "limited": hide_first(build_two_gpus(directory / "limited")),
        "followed": follow_first(build_two_gpus(directory / "followed")),
    }


def build_two_gpus(directory: Path, *, bare: bool = True) -> Path:
    """Build a host with two MI210, whose nodes have the numbers of the two render nodes that really open.

    ROCm's library wants the links of KFD's nodes.
    """
    profile = load_profile("mi210-4")
    in_order = sorted(profile.gpus, key=lambda gpu: str(gpu.pci_address))[: len(MINORS)]
    gpus = tuple(gpu.replace(minors=(minors,)) for gpu, minors in zip(in_order, MINORS, strict=True))
    build_host(directory, profile.replace(gpus=gpus), bare=bare)
    return directory


def hide_first(host: Path) -> Path:
    """Let the device cgroup decide who reads what KFD says of GPU 0; only those may try to whom it says no."""
    gpu = locate_gpus(Host(host))[0]
    properties = host / f".{KFD_NODES}/{gpu.kfd_node}/properties"
    properties.unlink()
    os.mknod(properties, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))
    return host


def follow_first(host: Path) -> Path:
    """Let GPU 0 be there for as long as the kernel has the first render node, and KFD count what the kernel tells udev.

    Each entry of it in sysfs is a path through the directory of the real node, which leads nowhere without that.
    """
    gpu = locate_gpus(Host(host))[0]
    entries = [f"{directory}/{gpu.pci_address}" for directory in ("/sys/bus/pci/devices", AMDGPU_PCI_DEVICES)]
    entries += [f"/sys/class/drm/{name}" for name in (f"card{gpu.card_minor}", f"renderD{gpu.render_minor}")]
    for entry in (*entries, f"{KFD_NODES}/{gpu.kfd_node}"):
        path = host / f".{entry}"
        kept = path.resolve() if path.is_symlink() else path.rename(host / "kfd-node")
        path.unlink(missing_ok=True)
        path.symlink_to(f"{REAL_NODE}{'/..' * DEEPEST}{FILES}/followed/{kept.relative_to(host.resolve())}")
    generation = host / f".{KFD_NODES}/../generation_id"
    generation.unlink()
    generation.symlink_to("/sys/kernel/uevent_seqnum")
    return host


@pytest.fixture(scope="session")
def start_machine(files: dict[str, Path]) -> Callable[[str], Machine]:
    """Return a function that boots a release's kernel with the real driver and installs our debs."""

    def start(suite: str) -> Machine:
        machine = Machine(kernel_image(suite), files)
        try:
            machine.run(LOAD_DRIVER)
            machine.run(f"dpkg --force-unsafe-io --install $(ls /srv/debs/*.deb | grep -v {META_PACKAGE})")
        except BaseException:
            machine.cut_power()
            raise
        return machine

    return start


@pytest.fixture(scope="session", params=SUITES)
def machine(request: pytest.FixtureRequest, start_machine: Callable[[str], Machine]) -> Iterator[Machine]:
    """Return a machine of one release, the only one that runs; its tests use it one after another."""
    started = start_machine(request.param)
    yield started
    started.cut_power()


@pytest.fixture(scope="session")
def kfd(machine: Machine) -> str:
    """Return what opening KFD without a GPU says to everybody: Linux 6.1 and 6.12 do not look for one."""
    opens = machine.run("uname -r").startswith(("6.1.", "6.12."))
    return "/dev/kfd opens" if opens else "/dev/kfd Invalid argument"


@pytest.fixture(scope="session")
def docker(machine: Machine) -> Run:
    """Return a function that runs a container with Docker of the release and our runtime."""
    command = start_docker(machine)
    return lambda words: machine.run(f"{command} {RUN_IN_DOCKER} {words}", check=False)


@pytest.fixture(scope="session")
def podman(machine: Machine) -> Run:
    """Return a function that runs a container with root's Podman of the release."""
    prepare_podman(machine)
    return lambda words: machine.run(f"podman run --rm {NO_NETWORK} {words}", check=False)


@pytest.fixture(scope="session")
def rootless(machine: Machine) -> Run:
    """Return a function that runs a container with the Podman of a user."""
    command = add_user(machine)
    return lambda words: machine.run(f"{command} run --rm {NO_NETWORK} {words}", check=False)


@pytest.fixture(scope="session")
def cdi(machine: Machine) -> None:
    """Describe the two GPUs of the simulated host to the machine's engines, with the tracker's hooks."""
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker enable")
    machine.run(
        f"{ON_SIMULATED_HOST} amd-ctk cdi generate && mkdir -p /etc/cdi && cp /srv/host/etc/cdi/amd.json /etc/cdi"
    )
