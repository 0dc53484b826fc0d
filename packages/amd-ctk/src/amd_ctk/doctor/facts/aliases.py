"""AMD GPUs that the driver of the running kernel is too old for: no alias of the module matches them.

Linux 6.1 claims display controllers of any model, but no processing accelerators, such as MI300X: nothing loads the
driver for those, and nothing is logged.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from amdgpu_discovery.driver.other_drivers import PCI_DEVICES, find_foreign_gpus
from amdgpu_discovery.host import Host

# depmod writes it: "alias PATTERN MODULE" in each line.
ALIASES = "/lib/modules/{release}/modules.alias"


def find_unknown_gpus(host: Host, release: str) -> list[str]:
    """Return the PCI addresses of GPUs without a driver that amdgpu of kernel `release` does not know.

    Nothing is returned if depmod's file or the kernel's description of a GPU cannot be read.
    """
    functions = [gpu.pci_address for gpu in find_foreign_gpus(host) if not gpu.driver]
    patterns = _read_patterns(host, release) if functions else []
    if not patterns:
        return []
    return [name for name in functions if _is_unknown(host, name, patterns)]


def _read_patterns(host: Host, release: str) -> list[str]:
    lines = host.read_attribute(ALIASES.format(release=release)).splitlines()
    words = (line.split() for line in lines if line.endswith(" amdgpu"))
    return [each[1] for each in words if len(each) == 3 and each[1].startswith("pci:")]


def _is_unknown(host: Host, name: str, patterns: list[str]) -> bool:
    alias = host.read_attribute(f"{PCI_DEVICES}/{name}/modalias")
    return bool(alias) and not any(fnmatchcase(alias, pattern) for pattern in patterns)
