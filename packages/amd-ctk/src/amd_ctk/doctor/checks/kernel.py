"""Checks of the kernel, its security and AMD's packages."""

from __future__ import annotations

from collections.abc import Sequence

from amd_ctk.doctor.check import Finding, bad, check, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.kernel import KernelFacts
from amdgpu_discovery.driver.other_drivers import ForeignGpu

BIND = "/sys/bus/pci/drivers/amdgpu/bind"
FIX_BY_DRIVER = {
    "": "sudo dmesg | grep amdgpu, which says why it refused the GPU",
    "vfio-pci": "to use it here, not in a virtual machine, remove it from vfio-pci.ids and driver_override, and reboot",
    "radeon": "boot with radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1",
}
TAKE_OUT = "take that line out, then 'sudo update-initramfs -u' or 'sudo dracut --force', and reboot"
# The kernel shows this for an id that is not mapped (/proc/sys/kernel/overflowuid).
OVERFLOW_ID = 65534


@check(why="WSL has /dev/dxg instead of /dev/kfd, which this toolkit needs", see="reference/support.md#systems")
def check_windows(facts: Facts) -> Finding | None:
    """Is this Linux on Windows?"""
    if not facts.kernel.is_windows:
        return None
    return bad("this is WSL: it has /dev/dxg and no /dev/kfd", fix="run Docker Engine on Linux")


@check(
    why="without the driver there is no /dev/kfd, and no container gets a GPU",
    see="reference/messages.md#the-driver-and-its-nodes",
)
def check_driver(facts: Facts) -> Finding | None:
    """Is the amdgpu driver loaded, and does it have every AMD GPU?"""
    kernel = facts.kernel
    foreign = _find_foreign(facts)
    if kernel.unknown_gpus and not _lacks_dkms_module(kernel):
        return _judge_unknown(kernel, is_all=len(kernel.unknown_gpus) == len(facts.gpus.pci_functions))
    if foreign:
        return _judge_foreign(foreign, kernel, is_all=not (facts.gpus.gpus or facts.gpus.hidden))
    if kernel.is_driver_loaded:
        version = f" {kernel.driver_version}" if kernel.driver_version else " of the kernel"
        return ok(f"amdgpu{version} is loaded")
    if kernel.is_windows or (kernel.secure_boot and kernel.has_dkms) or _lacks_dkms_module(kernel):
        return None
    if not facts.gpus.pci_functions:
        return note("amdgpu is not loaded, and this host has no AMD GPU")
    return _judge_not_loaded(kernel)


def _lacks_dkms_module(kernel: KernelFacts) -> bool:
    return kernel.has_dkms and bool(kernel.release) and kernel.release not in kernel.dkms_kernels


def _judge_unknown(kernel: KernelFacts, *, is_all: bool) -> Finding:
    words = f"amdgpu of Linux {kernel.release} does not know the GPU at {', '.join(kernel.unknown_gpus)}"
    fix = "install a later kernel, or AMD's amdgpu-dkms"
    return bad(words, fix=fix) if is_all else note(words, fix=fix)


def _judge_not_loaded(kernel: KernelFacts) -> Finding:
    if kernel.refusing_option:
        words = f"amdgpu does not load, because the kernel was started with {kernel.refusing_option}"
        return bad(words, fix=f"take {kernel.refusing_option} out of the kernel's command line, and reboot")
    if line := kernel.refusing_line.text:
        return bad(f"amdgpu does not load, because of {line!r} in {kernel.refusing_line.path}", fix=TAKE_OUT)
    return bad("amdgpu is not loaded", fix="sudo modprobe amdgpu")


def _find_foreign(facts: Facts) -> list[ForeignGpu]:
    """Return the GPUs of other drivers; none if amdgpu is not loaded, unless they are all."""
    if facts.kernel.is_driver_loaded:
        return list(facts.gpus.foreign)
    foreign = [gpu for gpu in facts.gpus.foreign if gpu.driver]
    return foreign if len(foreign) == len(facts.gpus.pci_functions) else []


def _judge_foreign(foreign: Sequence[ForeignGpu], kernel: KernelFacts, *, is_all: bool) -> Finding:
    first = foreign[0]
    words = "; ".join(gpu.words for gpu in foreign)
    usual = f"unbind it from {first.driver}, and then: echo {first.pci_address} | sudo tee {BIND}"
    fix = FIX_BY_DRIVER.get(first.driver, usual)
    if first.driver == "vfio-pci" and kernel.vfio_line.text:
        words += f", because of {kernel.vfio_line.text!r} in {kernel.vfio_line.path}"
        fix = TAKE_OUT
    return bad(words, fix=fix) if is_all else note(words, fix=fix)


@check(
    why="after a kernel update, the module of the old kernel cannot be loaded",
    see="reference/messages.md#the-driver-and-its-nodes",
)
def check_dkms(facts: Facts) -> Finding | None:
    """Has DKMS built the driver for the running kernel?"""
    kernel = facts.kernel
    if not kernel.has_dkms or not kernel.release:
        return None
    if kernel.release in kernel.dkms_kernels or kernel.is_driver_loaded:
        return ok(f"DKMS has amdgpu for {', '.join(kernel.dkms_kernels) or 'no kernel'}")
    words = f"DKMS has no amdgpu for the running kernel {kernel.release}"
    return bad(words, fix=f"sudo dkms autoinstall -k {kernel.release} && sudo modprobe amdgpu")


@check(
    why="with Secure Boot, the kernel refuses a module whose signature it does not know",
    see="reference/messages.md#the-driver-and-its-nodes",
)
def check_secure_boot(facts: Facts) -> Finding | None:
    """Does Secure Boot block the driver?"""
    kernel = facts.kernel
    if kernel.secure_boot is None:
        return None
    if not kernel.secure_boot:
        return ok("Secure Boot is off")
    is_built = kernel.has_dkms and kernel.release in kernel.dkms_kernels
    if kernel.is_driver_loaded or not is_built:
        return ok("Secure Boot is on, and does not affect the driver")
    words = "Secure Boot is on, but the amdgpu module of DKMS is not loaded"
    return bad(words, fix=f"sudo mokutil --import {kernel.dkms_certificate}, reboot, and enroll the key")


@check(
    why="a package that failed half-way lacks a driver or a program; apt refuses packages for another release",
    see="how-to/install.md#from-package-files",
)
def check_packages(facts: Facts) -> Finding | None:
    """Are AMD's packages completely installed, for this release?"""
    packages = facts.packages
    if packages.broken:
        return bad(packages.broken[0], fix="sudo dpkg --configure -a && sudo apt-get --fix-broken install")
    if packages.foreign_sources:
        return note(packages.foreign_sources[0], fix="name this host's release there, if AMD has packages for it")
    if packages.mixed:
        words = f"{packages.mixed[0]} is from another build than the others, so the previous toolkit stays in use"
        return note(words, fix="install all packages of the toolkit from one place, by ./install, apt or dnf")
    return ok(f"fully installed: {packages.installed}") if packages.installed else None


@check(
    why="SELinux can deny access that a node's mode allows; programs then fail with 'Permission denied'",
    see="explanation/access.md",
)
def check_selinux(facts: Facts) -> Finding | None:
    """Does SELinux let containers use devices?"""
    kernel = facts.kernel
    if kernel.selinux_enforcing is None:
        return None
    if not kernel.selinux_enforcing:
        return ok("SELinux does not enforce")
    if not (kernel.selinux_devices or kernel.selinux_dri_devices):
        return _judge_labels(sets_labels=facts.docker.sets_labels or facts.podman.is_installed)
    return ok("SELinux lets containers use GPUs")


def _judge_labels(*, sets_labels: bool) -> Finding:
    fix = "sudo setsebool -P container_use_devices on"
    if sets_labels:
        return bad("SELinux denies containers access to devices", fix=fix)
    # dockerd sets labels with --selinux-enabled, containerd with enable_selinux. Both are off by default.
    words = "SELinux denies containers with a label access to devices, but no engine here seems to set one"
    return note(words, fix=fix)


@check(
    why="an LXC container of Proxmox or Incus needs the nodes passed in, with a mapped group",
    see="explanation/access.md#rootless-engines",
)
def check_user_namespace(facts: Facts) -> Finding | None:
    """Is this a system container without the nodes?"""
    if not facts.kernel.is_user_namespace:
        return None
    if facts.gpus.node_problems:
        words = f"this is a user namespace without the nodes: {facts.gpus.node_problems[0].message}"
        return bad(words, fix="pass /dev/kfd and the render nodes in: pct set ID -dev0 /dev/kfd,mode=0666 -dev1 ...")
    unmapped = [node for node in facts.gpus.closed_nodes if OVERFLOW_ID in (node.uid, node.gid)]
    if unmapped:
        words = f"{unmapped[0].path} has no owner here: its group is not mapped into this user namespace"
        return bad(words, fix="pass the node in with mode=0666, or map the host's render group")
    return ok("user ids are mapped, and the nodes are there")
