"""Which ROCm in an image is tested with which kernel driver.

The version of a DKMS module is not that of ROCm; the table says which belong together.
"""

from __future__ import annotations

from amdgpu_discovery.tables import read_table

# There is none for the kernel's own driver.
DRIVER_VERSION = "/sys/module/amdgpu/version"


def is_tested(module: str, rocm: str) -> bool | None:
    """Return whether AMD tests a ROCm with a driver module, both as they call themselves; None where nobody says."""
    row, release = _row_of(module), ".".join(_numbers(rocm)[:2])
    if release in row.get("tested", ()):
        return True
    return False if release in row.get("untested", ()) else None


def releases_tested_with(module: str) -> list[str]:
    """Return the releases of ROCm that AMD tests with a driver module, the oldest first; [] where nobody says."""
    return _row_of(module).get("tested", [])


def _row_of(module: str) -> dict[str, list[str]]:
    numbers = _numbers(module)
    rows = [row for known, row in read_table("rocm-drivers")["modules"].items() if _begins(numbers, _numbers(known))]
    return rows[0] if rows else {}


def _numbers(version: str) -> list[str]:
    return version.replace("-", ".").split(".")


def _begins(numbers: list[str], start: list[str]) -> bool:
    return numbers[: len(start)] == start
