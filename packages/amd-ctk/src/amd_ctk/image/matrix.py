"""Write the matrix of images as a bake file: one target for each, with its tag and what it requires."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.check import TARGETS_ANNOTATION
from amd_ctk.image.template import PATTERNS, Template, requirements_of

# BuildKit makes one build of each.
MOST_IMAGES = 1000


def build_matrix(template: Template, values_by_option: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a docker-bake.json for every combination of values; ImageError where one is missing or means nothing.

    An option has the name of a field; {gfx|family} takes the values of both.
    """
    _refuse_unused(template, values_by_option)
    fields = template.fields
    lists = [[value for option in field.split("|") for value in values_by_option.get(option, ())] for field in fields]
    for field, values in zip(fields, lists, strict=True):
        _check(template, field, values)
    combinations = [dict(zip(fields, values, strict=True)) for values in product(*lists)]
    if len(combinations) > MOST_IMAGES:
        raise ImageError(f"that would be {len(combinations)} images", hint=f"at most {MOST_IMAGES} are made at once")
    targets = {_name(values): _target(template, values) for values in combinations}
    return {"group": {"default": {"targets": sorted(targets)}}, "target": targets}


def _refuse_unused(template: Template, values_by_option: Mapping[str, Sequence[str]]) -> None:
    used = {option for field in template.fields for option in field.split("|")}
    for option, values in values_by_option.items():
        if values and option not in used:
            raise ImageError(
                f"{template.text} has no field for the values of --{option}",
                hint=f"add {{{option}}} to it, or leave --{option} out",
            )


def _check(template: Template, field: str, values: Sequence[str]) -> None:
    options = " or ".join(f"--{option}" for option in field.split("|"))
    if not values:
        raise ImageError(f"{template.text} has a field {{{field}}} without values", hint=f"give them with {options}")
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
        # `check` reads the manifest, `pick` the entry of the index that leads to it.
        made["annotations"] = [
            f"{where}:{TARGETS_ANNOTATION}={target}" for where in ("manifest", "manifest-descriptor")
        ]
    if "cpu" in values:
        made["platforms"] = [f"linux/amd64/{values['cpu'].removeprefix('x86-64-')}"]
    return made
