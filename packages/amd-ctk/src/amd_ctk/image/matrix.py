"""Write the matrix of images as a bake file: one target for each, with its tag and what it requires."""

from __future__ import annotations

from itertools import product

from amd_ctk.image.check import TARGETS_ANNOTATION
from amd_ctk.image.errors import ImageError
from amd_ctk.image.template import PATTERNS, requirements_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from amd_ctk.image.template import Template

# BuildKit makes one build of each.
MOST_IMAGES = 1000


def build_matrix(template: Template, values_by_field: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a docker-bake.json for every combination of values; ImageError where one is missing or means nothing."""
    for field in template.fields:
        _check(template, field, values_by_field.get(field, ()))
    fields = template.fields
    combinations = [dict(zip(fields, values, strict=True)) for values in product(*(values_by_field[f] for f in fields))]
    if len(combinations) > MOST_IMAGES:
        raise ImageError(f"that would be {len(combinations)} images", hint=f"at most {MOST_IMAGES} are made at once")
    targets = {_name(values): _target(template, values) for values in combinations}
    return {"group": {"default": {"targets": sorted(targets)}}, "target": targets}


def _check(template: Template, field: str, values: Sequence[str]) -> None:
    import re

    option = f"--{field.partition('|')[0]}"
    if not values:
        raise ImageError(f"{template.text} has a field {{{field}}} without values", hint=f"give them with {option}")
    for value in values:
        if not re.fullmatch(PATTERNS[field], value):
            raise ImageError(f"{value} cannot stand for {{{field}}}")


def _name(values: Mapping[str, str]) -> str:
    # Bake allows letters, digits, _ and - in the names of targets.
    return "-".join(values.values()).replace(".", "_")


def _target(template: Template, values: Mapping[str, str]) -> dict[str, Any]:
    requirements = requirements_of(values)
    target = values.get("gfx") or values.get("family") or values.get("gfx|family")
    made: dict[str, Any] = {"tags": [template.format(values)], "args": requirements}
    if target:
        made["labels"] = {TARGETS_ANNOTATION: target}
        made["annotations"] = [f"manifest:{TARGETS_ANNOTATION}={target}"]
    return made
