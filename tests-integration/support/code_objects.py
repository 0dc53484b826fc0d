"""Find the targets of code in files from the headers of the code objects, independent of any name."""

from __future__ import annotations

import mmap
from pathlib import Path
from struct import unpack_from

BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
ELF = b"\x7fELF"
EM_AMDGPU = 224
# EF_AMDGPU_MACH of LLVM's ELF.h, for the targets in Debian's packages.
MACHINES = {
    0x2A: "gfx803", 0x2C: "gfx900", 0x2F: "gfx906", 0x30: "gfx908", 0x3F: "gfx90a", 0x40: "gfx940", 0x4B: "gfx941",
    0x4C: "gfx942", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031",
    0x38: "gfx1032", 0x3D: "gfx1035", 0x3E: "gfx1034", 0x41: "gfx1100", 0x44: "gfx1103", 0x46: "gfx1101",
    0x47: "gfx1102", 0x43: "gfx1150", 0x4A: "gfx1151", 0x48: "gfx1200", 0x4E: "gfx1201",
}  # fmt: skip


def targets_of_code(directory: Path) -> set[str]:
    """Return the targets of the code objects in all files of a directory."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size]
    return {target for path in files for target in _targets(path)}


def _targets(path: Path) -> set[str]:
    found: set[str] = set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(BUNDLE)
        while at >= 0:
            found |= {MACHINES[flags & 0xFF] for flags in _flags(content, at)}
            at = content.find(BUNDLE, at + 1)
    return found


def _flags(content: mmap.mmap, at: int) -> list[int]:
    """Return the flags of the code objects in a bundle, which begins with their number, offsets, sizes and names."""
    (count,) = unpack_from("<Q", content, at + len(BUNDLE))
    position = at + len(BUNDLE) + 8
    flags: list[int] = []
    for _ in range(count):
        offset, _size, length = unpack_from("<QQQ", content, position)
        position += 24 + length
        start = at + offset
        if content[start : start + 4] == ELF and unpack_from("<H", content, start + 18) == (EM_AMDGPU,):
            flags += unpack_from("<I", content, start + 48)
    return flags
