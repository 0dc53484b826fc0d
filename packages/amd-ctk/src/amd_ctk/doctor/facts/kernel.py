"""The kernel, its modules and its security, and AMD's packages."""

from __future__ import annotations

from collections.abc import Iterator

from amd_ctk.doctor.facts.aliases import find_unknown_gpus
from amd_ctk.doctor.facts.modprobe import ModprobeLine, find_refusing_line, find_vfio_line, read_lines
from amd_ctk.explain.host_nodes import DXG
from amdgpu_discovery.driver.drm import AMDGPU_DRIVER
from amdgpu_discovery.driver.kfd_topology import TOPOLOGY
from amdgpu_discovery.driver.other_drivers import find_refusing_option
from amdgpu_discovery.files import read_file
from amdgpu_discovery.host import IDENTITY_UID_MAP, Host
from amdgpu_discovery.tables.driver_versions import DRIVER_VERSION, DriverReleases, read_releases
from amdgpu_discovery.value import Value

# Linux: security/selinux/selinuxfs.c.
SELINUX = "/sys/fs/selinux"
# UEFI specification, 3.3 "Globally Defined Variables"; four bytes of attributes precede the value.
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DKMS = "/var/lib/dkms/amdgpu"
STATUS = "/var/lib/dpkg/status"
SOURCES_D = "/etc/apt/sources.list.d"
OS_RELEASE = "/etc/os-release"
# AMD's own packages, this project's, and the driver's.
PREFIXES = ("amd-c", "amd-device-spec", "amd-gpu-tracker", "amdgpu", "amdrocm-", "rocm")
MOST_NAMED_FILES = 3
# Each of this project's packages records its build there.
PARTS = "/usr/lib/amd-container-toolkit/parts"
AMD_REPOSITORIES = ("radeon.com/", "repo.amd.com/")
# The code names of releases for which AMD or Debian has packages.
RELEASES = ("focal", "jammy", "noble", "resolute", "bullseye", "bookworm", "trixie", "forky")
MOST_SOURCES = 256
# DKMS makes its own; on Ubuntu it uses that of shim-signed (dkms, prepare_signing).
DKMS_CERTIFICATE = "/var/lib/dkms/mok.pub"
UBUNTU_CERTIFICATE = "/var/lib/shim-signed/mok/MOK.der"


class KernelFacts(Value):
    """The kernel of a host."""

    # As uname -r prints it, "" if it cannot be read.
    release: str = ""
    is_windows: bool = False
    is_driver_loaded: bool = False
    # PCI addresses of GPUs that this kernel's amdgpu does not know.
    unknown_gpus: tuple[str, ...] = ()
    # The option of the kernel's command line that keeps amdgpu from loading, "" if there is none.
    refusing_option: str = ""
    # Lines of modprobe's files that keep amdgpu from loading, and that give GPUs to vfio-pci.
    refusing_line: ModprobeLine = ModprobeLine()
    vfio_line: ModprobeLine = ModprobeLine()
    # The version of the DKMS module, "" for the kernel's own driver.
    driver_version: str = ""
    # The ROCm releases that are tested with this driver.
    releases: DriverReleases = DriverReleases()
    # The kernels for which DKMS has built amdgpu, and whether DKMS has amdgpu at all.
    dkms_kernels: tuple[str, ...] = ()
    has_dkms: bool = False
    # None if the firmware does not report it.
    secure_boot: bool | None = None
    # The certificate with which DKMS signs modules.
    dkms_certificate: str = DKMS_CERTIFICATE
    # None without SELinux, else whether it is enforced.
    selinux_enforcing: bool | None = None
    selinux_devices: bool = False
    selinux_dri_devices: bool = False
    # Whether this process runs in a user namespace that maps user ids.
    is_user_namespace: bool = False


def read_kernel(host: Host, proc: str) -> KernelFacts:
    """Return the facts about a host's kernel; `proc` is the directory with this machine's processes."""
    release = _read(f"{proc}/sys/kernel/osrelease")
    driver = host.read_attribute(DRIVER_VERSION)
    enforce = host.read_attribute(f"{SELINUX}/enforce")
    modprobe_lines = read_lines(host)
    return KernelFacts(
        release=release,
        is_windows=("microsoft" in release.lower() or host.stat(DXG) is not None) and host.stat(TOPOLOGY) is None,
        is_driver_loaded=host.stat(AMDGPU_DRIVER) is not None,
        unknown_gpus=tuple(find_unknown_gpus(host, release)),
        refusing_option=find_refusing_option(_read(f"{proc}/cmdline")),
        refusing_line=find_refusing_line(modprobe_lines),
        vfio_line=find_vfio_line(modprobe_lines),
        driver_version=driver,
        releases=read_releases(host, driver),
        dkms_kernels=tuple(sorted(_dkms_kernels(host))),
        has_dkms=bool(host.names(DKMS)),
        secure_boot=_read_secure_boot(host),
        dkms_certificate=DKMS_CERTIFICATE if host.stat(UBUNTU_CERTIFICATE) is None else UBUNTU_CERTIFICATE,
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
    # <version>/<kernel>/<architecture>, beside the link `source` and the directory `build` of a running build.
    versions = [f"{DKMS}/{name}" for name in host.names(DKMS)]
    return {kernel for path in versions for kernel in host.names(path) if kernel not in ("source", "build")}


def _read_secure_boot(host: Host) -> bool | None:
    try:
        content = host.read(SECURE_BOOT)
    except OSError:
        return None
    return content[4:5] == b"\1"


def _boolean(host: Host, name: str) -> bool:
    # The file contains two values: "current pending".
    return host.read_attribute(f"{SELINUX}/booleans/{name}").startswith("1")


class PackageFacts(Value):
    """What is wrong with packages, as text."""

    # "amdgpu-dkms is half-configured"
    broken: tuple[str, ...] = ()
    # "/etc/apt/sources.list.d/amdgpu.list is for noble, and this host is trixie"
    foreign_sources: tuple[str, ...] = ()
    # "amdgpu-dkms, rocm-core and 12 more"
    installed: str = ""
    # This project's packages from other builds than most of them.
    mixed: tuple[str, ...] = ()


def read_packages(host: Host) -> PackageFacts:
    """Return what dpkg and apt know, nothing without dpkg, and which of the toolkit's packages are of other builds."""
    states = dict(_states(host.read_attribute(STATUS)))
    broken = [f"{name} is {state}" for name, state in states.items() if state != "installed"]
    more = f" and {len(states) - MOST_NAMED_FILES} more" if len(states) > MOST_NAMED_FILES else ""
    return PackageFacts(
        installed=", ".join(sorted(states)[:MOST_NAMED_FILES]) + more,
        broken=tuple(broken),
        foreign_sources=tuple(_find_foreign(host)),
        mixed=tuple(_find_mixed(host)),
    )


def _find_mixed(host: Host) -> list[str]:
    names = sorted(host.names(PARTS))
    builds = [host.read_attribute(f"{PARTS}/{name}/BUILD").partition("\n")[0] for name in names]
    usual = max(builds, key=builds.count, default="")
    return [name for name, build in zip(names, builds, strict=True) if build and build != usual]


def _states(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and state of each AMD package that is selected for installation."""
    for stanza in text.split("\n\n"):
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        # dpkg(1): the wanted state, a flag, and the state.
        words = stanza.partition("\nStatus: ")[2].partition("\n")[0].split() if name.startswith(PREFIXES) else []
        if len(words) == 3 and words[0] == "install":
            yield name, words[2]


def _find_foreign(host: Host) -> Iterator[str]:
    release = host.read_attribute(OS_RELEASE)
    own = [name for name in RELEASES if name in release]
    for name in sorted(host.names(SOURCES_D))[:MOST_SOURCES] if own else ():
        words = _words_of_amd(host.read_attribute(f"{SOURCES_D}/{name}"))
        other = [release for release in RELEASES if release in words and release not in own]
        if other:
            yield f"{SOURCES_D}/{name} is for {other[0]}, and this host is {own[0]}"


def _words_of_amd(text: str) -> list[str]:
    """Return the words of the entries for AMD's repositories: lines of a .list, stanzas of a .sources."""
    entries = text.split("\n\n") if "URIs:" in text else text.splitlines()
    lines = [
        line for entry in entries if any(name in entry for name in AMD_REPOSITORIES) for line in entry.splitlines()
    ]
    return [word for line in lines if not line.lstrip().startswith("#") for word in line.split()]
