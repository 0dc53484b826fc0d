"""Does code for some targets run on a GPU? The names are LLVM's."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# LLVM, "User Guide for AMDGPU Backend", Generic Processor Code Object Versioning; as of 2026.
GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}


def fits(target: str, targets: Iterable[str]) -> bool:
    """Return whether a GPU of a target runs code for one of the targets, a generic one included."""
    return any(target == name or target in GENERIC.get(name, ()) for name in targets)


def parse_override(version: str) -> str:
    """Return the target that HSA_OVERRIDE_GFX_VERSION means, gfx1030 for "10.3.0"; "" for anything else."""
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        return ""
    major, minor, stepping = map(int, parts)
    return f"gfx{major}{minor:x}{stepping:x}"
