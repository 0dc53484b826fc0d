"""Parses numbers as the kernel prints them in sysfs and in /proc."""

from __future__ import annotations

from amdgpu_discovery.driver.kfd_topology import parse_number

SIGN_BIT = 1 << 63
# Documentation/gpu/drm-usage-stats.rst: a number without a unit is in bytes. Linux 5.14 to 5.18 wrote kB.
BYTES_BY_UNIT = {"": 1, "KiB": 1 << 10, "kB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_count(text: str) -> int:
    """Return a number that is not negative, 0 for any other text.

    KFD keeps a process's memory in a signed counter and prints it as unsigned (kfd_process.c, `vram_usage`), so a
    counter below zero looks like 16 EiB.
    """
    number = parse_number(text) or 0
    return 0 if number >= SIGN_BIT else number


def parse_optional(text: str) -> int | None:
    """Return a number, None if the kernel prints nothing or something else."""
    return parse_count(text) if text.isascii() and text.isdecimal() else None


def parse_bytes(text: str) -> int:
    """Return a size such as `2048 KiB` in bytes, 0 for any other text."""
    number, _, unit = text.strip().partition(" ")
    return parse_count(number) * BYTES_BY_UNIT.get(unit.strip(), 0)
