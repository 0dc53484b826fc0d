"""What the kernel, its modules and its security are."""

from __future__ import annotations

from amdgpu_discovery.driver_versions import DRIVER_VERSION, DriverReleases, read_releases
from amdgpu_discovery.drm import AMDGPU_DRIVER
from amdgpu_discovery.files import read_file
from amdgpu_discovery.host import IDENTITY_UID_MAP, Host
from amdgpu_discovery.kfd_topology import TOPOLOGY
from amdgpu_discovery.value import Value

# Linux: security/selinux/selinuxfs.c.
SELINUX = "/sys/fs/selinux"
# UEFI specification, 3.3 "Globally Defined Variables"; the value stands behind four bytes of attributes.
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DKMS = "/var/lib/dkms/amdgpu"
# What Windows gives to Linux in place of a driver.
DXG = "/dev/dxg"


class KernelFacts(Value):
    """The kernel of a host."""

    # As uname -r prints it, "" where it cannot be read.
    release: str = ""
    is_windows: bool = False
    is_driver_loaded: bool = False
    # Of the DKMS module, "" for the kernel's own.
    driver_version: str = ""
    # Of ROCm, that are tested with it.
    releases: DriverReleases = DriverReleases()
    # The kernels for which DKMS has built amdgpu, and whether DKMS has it at all.
    dkms_kernels: tuple[str, ...] = ()
    has_dkms: bool = False
    # None where the firmware does not say.
    secure_boot: bool | None = None
    # None without SELinux, else whether it is enforced.
    selinux_enforcing: bool | None = None
    selinux_devices: bool = False
    selinux_dri_devices: bool = False
    # Whether this process runs where user ids are others than the kernel's.
    is_user_namespace: bool = False


def read_kernel(host: Host, proc: str) -> KernelFacts:
    """Return what a host's kernel says of itself; `proc` is where this machine has its processes."""
    release, driver = _read(f"{proc}/sys/kernel/osrelease"), host.read_attribute(DRIVER_VERSION)
    enforce = host.read_attribute(f"{SELINUX}/enforce")
    return KernelFacts(
        release=release,
        is_windows=("microsoft" in release.lower() or host.stat(DXG) is not None) and host.stat(TOPOLOGY) is None,
        is_driver_loaded=host.stat(AMDGPU_DRIVER) is not None,
        driver_version=driver,
        releases=read_releases(host, driver),
        dkms_kernels=tuple(sorted(_dkms_kernels(host))),
        has_dkms=bool(host.names(DKMS)),
        secure_boot=_read_secure_boot(host),
        selinux_enforcing=enforce == "1" if enforce else None,
        selinux_devices=_boolean(host, "container_use_devices"),
        selinux_dri_devices=_boolean(host, "container_use_dri_devices"),
        is_user_namespace=" ".join(_read(f"{proc}/self/uid_map").split()) not in ("", IDENTITY_UID_MAP),
    )


def _read(path: str) -> str:
    try:
        return read_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _dkms_kernels(host: Host) -> set[str]:
    # <version>/<kernel>/<architecture>, beside the link `source` and the directory `build` of one under way.
    versions = [f"{DKMS}/{name}" for name in host.names(DKMS)]
    return {kernel for path in versions for kernel in host.names(path) if kernel not in ("source", "build")}


def _read_secure_boot(host: Host) -> bool | None:
    try:
        content = host.read(SECURE_BOOT)
    except OSError:
        return None
    return content[4:5] == b"\1"


def _boolean(host: Host, name: str) -> bool:
    # "current pending"
    return host.read_attribute(f"{SELINUX}/booleans/{name}").startswith("1")
