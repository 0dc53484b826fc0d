"""Virtual machines with kernels of three Debian releases, our debs, and a simulated host beside the real driver."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.simulate import build_host, load_profile
from kernel.containers import SCRIPTS
from kernel.image import kernel_image
from kernel.machine import Machine
from support.busybox import build_rootfs, pack
from support.debs import META_PACKAGE, build_debs
from support.installed import engine_program, require_root
from support.matrix import Matrix

SUITES = ("bookworm", "trixie", "forky")
MATRIX = Matrix(
    "kernel",
    {
        "bookworm": ("Debian 12", "Linux 6.1, systemd 252"),
        "trixie": ("Debian 13", "Linux 6.12, systemd 257"),
        "forky": ("Debian 14 (testing)", "Linux 7.2, systemd 261"),
    },
)
# Of the two GPUs: what virtio-gpu and vgem get when they are loaded in this order.
MINORS = ((0, 128), (1, 129))
# KFD has another number at every boot.
LOAD_DRIVER = """
modprobe amdgpu && modprobe vgem && udevadm settle
cat /sys/class/kfd/kfd/dev >/srv/host/sys/class/kfd/kfd/dev
"""
PROGRAMS = ("qemu-system-x86_64", "mkfs.ext4", "debootstrap", "depmod", "modprobe", "cpio")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what became of a test."""
    return (yield from MATRIX.watch(item))


def pytest_sessionfinish() -> None:
    """Write docs/reference/kernels.md if asked for."""
    MATRIX.write_if_asked("AMD_KERNELS_PAGE")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return what every machine is started with: debs, a root file system for containers, and a simulated host."""
    require_root()
    for program in PROGRAMS:
        engine_program(program)
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
    }


def build_two_gpus(directory: Path) -> Path:
    """Build a host with two MI210, whose nodes have the numbers of the two render nodes that really open."""
    profile = load_profile("mi210-4")
    in_order = sorted(profile.gpus, key=lambda gpu: str(gpu.pci_address))[: len(MINORS)]
    gpus = tuple(gpu.replace(minors=(minors,)) for gpu, minors in zip(in_order, MINORS, strict=True))
    build_host(directory, profile.replace(gpus=gpus), with_links=False)
    return directory


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


@pytest.fixture(scope="module", params=SUITES)
def machine(request: pytest.FixtureRequest, start_machine: Callable[[str], Machine]) -> Iterator[Machine]:
    """Return a machine of one release; its tests use it one after another."""
    started = start_machine(request.param)
    yield started
    started.cut_power()
