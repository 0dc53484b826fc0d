"""Lines of modprobe's files that keep amdgpu from loading, or give AMD's GPUs to vfio-pci; modprobe.d(5)."""

from __future__ import annotations

from collections.abc import Iterable

from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# A file counts only in the first of these that has its name.
DIRECTORIES = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d")
MOST_MODPROBE_FILES = 256
# An AMD device among the ids of `options vfio-pci ids=1002:744c,1002:ab30`.
AMD_ID = "1002:"


class ModprobeLine(Value):
    """A line of a file; `text` is "" if there is no such line."""

    path: str = ""
    text: str = ""


def read_lines(host: Host) -> list[ModprobeLine]:
    """Return the lines of modprobe's files."""
    paths: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in sorted(host.names(directory))[:MOST_MODPROBE_FILES]:
            if name.endswith(".conf"):
                paths.setdefault(name, f"{directory}/{name}")
    return [
        ModprobeLine(path=path, text=" ".join(text.partition("#")[0].split()))
        for path in sorted(paths.values())
        for text in host.read_attribute(path).replace("\\\n", " ").splitlines()
    ]


def find_refusing_line(lines: Iterable[ModprobeLine]) -> ModprobeLine:
    """Return the line because of which amdgpu does not load at boot, or does nothing."""
    return next((line for line in lines if _refuses(line.text.split())), ModprobeLine())


def find_vfio_line(lines: Iterable[ModprobeLine]) -> ModprobeLine:
    """Return the line that gives GPUs of AMD to vfio-pci."""
    return next((line for line in lines if _gives_to_vfio(line.text.split())), ModprobeLine())


def _refuses(words: list[str]) -> bool:
    if words[1:2] != ["amdgpu"]:
        return False
    # An `install` command that calls modprobe loads the module after all.
    is_replaced = words[0] == "install" and not any("modprobe" in word or "insmod" in word for word in words[2:])
    return words[0] == "blacklist" or is_replaced or (words[0] == "options" and "modeset=0" in words)


def _gives_to_vfio(words: list[str]) -> bool:
    is_vfio = words[:1] == ["options"] and [word.replace("_", "-") for word in words[1:2]] == ["vfio-pci"]
    return is_vfio and any(word.startswith("ids=") and AMD_ID in word for word in words[2:])
