"""Whether code for some targets runs on a GPU. The names are LLVM's."""

from __future__ import annotations

from amdgpu_discovery.tables import read_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# A regular expression for names of targets, also inside other text.
TARGET_PATTERN = r"gfx(?:[0-9]+(?:-[0-9]+)?-generic|1[0-9]{2}[0-9a-f]|[6-9][0-9a-f]{2})|amdgcnspirv"
# SPIR-V is compiled for the GPU on which it is loaded.
ANY_TARGET = "amdgcnspirv"
# This variable makes ROCm take every GPU for another one.
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
LARGEST_OF_OVERRIDE = (63, 255, 255)
BLANKS_OF_C = " \t\n\v\f\r"
# More than any part of a version may be.
NO_NUMBER = 2**32
# Python refuses to convert thousands of digits. Zeros in front are digits too.
MOST_OVERRIDE_DIGITS = 64


def fits(target: str, targets: Iterable[str]) -> bool:
    """Return whether a GPU of a target runs code for one of `targets`, including generic ones.

    The part after a colon (`gfx90a:sramecc+:xnack-`) is a mode of the GPU, which sysfs does not show.
    """
    names = [name.partition(":")[0] for name in targets]
    if target in names or ANY_TARGET in names:
        return True
    generic = [name for name in names if name.endswith("-generic")]
    return bool(generic) and any(target in members for members in map(_generic_targets().get, generic) if members)


def belongs_to(target: str, name: str) -> bool:
    """Return whether a GPU's target belongs to a name: the target, a generic target or a family (`gfx94X`)."""
    if name[-1:] in ("X", "x"):
        return len(target) == len(name) and target[:-1] == name[:-1]
    return fits(target, (name,))


def family_of(target: str) -> str:
    """Return the family of a target, as AMD names its builds: gfx94X for gfx942, gfx110X for gfx1100."""
    return f"{target[:-1]}X" if target else ""


def generation_of(target: str) -> str:
    """Return the generation of a target: "11" for gfx1100. No GPU runs code of another generation."""
    return target.removeprefix("gfx")[:-2]


def parse_override(version: str) -> str:
    """Return the target that HSA_OVERRIDE_GFX_VERSION means, gfx1030 for "10.3.0"; "" if ROCm refuses it.

    libhsakmt (src/topology.c) reads it with `sscanf("%u.%u.%u%c")`, of which the last part must be missing.
    """
    numbers = [_scan_unsigned(part) for part in version.split(".")]
    if len(numbers) != len(LARGEST_OF_OVERRIDE):
        return ""
    if any(number > largest for number, largest in zip(numbers, LARGEST_OF_OVERRIDE, strict=True)):
        return ""
    major, minor, stepping = numbers
    return f"gfx{major}{minor:x}{stepping:x}"


def _scan_unsigned(text: str) -> int:
    """Return what C's `%u` reads: blanks and a sign may come first, and 32 bits count. NO_NUMBER if it reads less."""
    digits = text.lstrip(BLANKS_OF_C)
    sign, digits = (digits[0], digits[1:]) if digits[:1] in ("+", "-") else ("", digits)
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > MOST_OVERRIDE_DIGITS or int(digits) >= 2**64:
        return NO_NUMBER
    return int(f"{sign}{digits}") % 2**32


def _generic_targets() -> dict[str, list[str]]:
    generic: dict[str, list[str]] = read_table("gpu-targets")["generic"]
    return generic
