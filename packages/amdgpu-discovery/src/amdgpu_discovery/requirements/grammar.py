"""Parses `AMD_REQUIRE_*`: in a value a space means or, a comma means and, as in NVIDIA's toolkit."""

from __future__ import annotations

from amdgpu_discovery.choices.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.requirements.facts import not_judged
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

DISABLE = "AMD_DISABLE_REQUIRE"
# Values that Go's strconv.ParseBool takes for true, as in NVIDIA's toolkit.
TRUE = ("1", "t", "T", "true", "TRUE", "True")
# The operators for properties that have no order.
EQUALITY = ("=", "!=")
OPERATORS = (*EQUALITY, "<=", ">=", "<", ">")
ORDERED = ("cpu", "driver", "gpus", "kernel", "rocm", "vram")
PROPERTIES = ("cpu", "driver", "gfx", "gpus", "kernel", "partition", "rocm", "vram")
# Of all values together: an image can set any number of variables of any length.
MOST_CHARACTERS = 4096


class Comparison(Value):
    """One condition, such as `vram>=65536`."""

    subject: str
    operator: str
    value: str


def find_requirements(environment: Iterable[str]) -> dict[str, str]:
    """Return the requirements in an environment by variable, {} if it disables them; the last value counts."""
    found: dict[str, str] = {}
    disabled = ""
    for entry in environment:
        name, _, value = entry.partition("=")
        if name.startswith(REQUIREMENT_PREFIX):
            found[name] = value
        elif name == DISABLE:
            disabled = value
    return {} if disabled in TRUE else found


def parse_requirement(value: str) -> list[list[Comparison]]:
    """Return the alternatives of a value, each a list of conditions that must all hold. Raises RequirementError."""
    return [[_parse(part) for part in word.split(",") if part] for word in value.split()]


def _parse(text: str) -> Comparison:
    end = next((place for place, letter in enumerate(text) if letter in "=!<>"), len(text))
    operator = next((known for known in ("!=", "<=", ">=", *OPERATORS) if text.startswith(known, end)), "")
    comparison = Comparison(subject=text[:end], operator=operator, value=text[end + len(operator) :])
    _check(comparison, text)
    return comparison


def _check(comparison: Comparison, text: str) -> None:
    if comparison.subject not in PROPERTIES:
        known = ", ".join(PROPERTIES)
        raise not_judged(f"there is no property {shown(comparison.subject, quoted=True)}; the properties are {known}")
    if not (comparison.operator and comparison.value):
        raise not_judged(
            f"{shown(text, quoted=True)} is not a property, an operator ({' '.join(OPERATORS)}) and a value"
        )
    if comparison.subject not in ORDERED and comparison.operator not in EQUALITY:
        raise not_judged(f"{comparison.subject} can be compared with = and != only")
