"""Which ROCm in an image is tested with which kernel driver.

From AMD's "User and kernel-space support matrix": before ROCm 7 two minor releases in either direction. The version of
a DKMS module is not that of ROCm; AMD's release notes say which belong together. As of 2026.
"""

from __future__ import annotations

# Releases of ROCm in their order, and how the module of each calls itself, as far as its first two numbers.
RELEASES = ("5.5", "5.6", "5.7", "6.0", "6.1", "6.2", "6.3", "6.4")
ROCM_BY_MODULE = {"6.3": "6.0", "6.7": "6.1", "6.8": "6.2", "6.10": "6.3", "6.12": "6.4"}
TESTED = 2


def is_tested(module: str, rocm: str) -> bool | None:
    """Return whether AMD tests a ROCm with a driver module, both as they call themselves; None where nobody says."""
    driver, image = ROCM_BY_MODULE.get(_minor(module)), _minor(rocm)
    if driver is None or image not in RELEASES:
        return None
    return abs(RELEASES.index(driver) - RELEASES.index(image)) <= TESTED


def _minor(version: str) -> str:
    return ".".join(version.replace("-", ".").split(".")[:2])
