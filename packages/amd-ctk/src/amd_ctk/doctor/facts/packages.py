"""What Debian's package manager has of AMD's packages, and for which release it gets them."""

from __future__ import annotations

from collections.abc import Iterator

from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

STATUS = "/var/lib/dpkg/status"
SOURCES_D = "/etc/apt/sources.list.d"
OS_RELEASE = "/etc/os-release"
# AMD's own packages, this project's, and the driver's.
PREFIXES = ("amd-c", "amd-device-spec", "amd-gpu-tracker", "amdgpu", "amdrocm-", "rocm")
MOST_NAMES = 3
# Each of this project's packages says there of which build it is.
PARTS = "/usr/lib/amd-container-toolkit/parts"
AMD_REPOSITORIES = ("radeon.com/", "repo.amd.com/")
# By their code names, as far as AMD or Debian has packages for them.
RELEASES = ("focal", "jammy", "noble", "resolute", "bullseye", "bookworm", "trixie", "forky")
MOST_SOURCES = 256


class PackageFacts(Value):
    """What is wrong with packages, in words."""

    # "amdgpu-dkms is half-configured"
    broken: tuple[str, ...] = ()
    # "/etc/apt/sources.list.d/amdgpu.list is for noble, and this host is trixie"
    foreign_sources: tuple[str, ...] = ()
    # "amdgpu-dkms, rocm-core and 12 more"
    installed: str = ""
    # This project's packages that are of other builds than most of them.
    mixed: tuple[str, ...] = ()


def read_packages(host: Host) -> PackageFacts:
    """Return what dpkg and apt know, which is nothing where there is no dpkg, and of which builds our packages are."""
    states = dict(_states(host.read_attribute(STATUS)))
    broken = [f"{name} is {state}" for name, state in states.items() if state != "installed"]
    return PackageFacts(
        installed=_list_names(sorted(states)),
        broken=tuple(broken),
        foreign_sources=tuple(_find_foreign(host)),
        mixed=tuple(_find_mixed(host)),
    )


def _find_mixed(host: Host) -> list[str]:
    names = sorted(host.names(PARTS))
    builds = [host.read_attribute(f"{PARTS}/{name}/BUILD").partition("\n")[0] for name in names]
    usual = max(builds, key=builds.count, default="")
    return [name for name, build in zip(names, builds, strict=True) if build and build != usual]


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _states(text: str) -> Iterator[tuple[str, str]]:
    """Yield the state of each of AMD's packages that is wanted."""
    for stanza in text.split("\n\n"):
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        # dpkg(1): what is wanted, a flag, and the state.
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
