"""Images of one matrix: their names (`app:{version}-{gfx}` makes and reads them), and the bake file for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.check import TARGETS_ANNOTATION
from amd_ctk.image.contents import TARGET
from amdgpu_discovery.value import Value

FAMILY = r"gfx[0-9]{1,3}[Xx]"
PATTERNS = {
    "version": r"[0-9A-Za-z][0-9A-Za-z_.]{0,63}",
    "rocm": r"[0-9]{1,3}(?:\.[0-9]{1,3}){0,2}",
    "gfx": f"(?:{TARGET.pattern})",
    "family": FAMILY,
    "gfx|family": f"(?:{TARGET.pattern}|{FAMILY})",
    "cpu": r"x86-64-v[1-4]",
}
FIELD = re.compile(r"\{([^{}]*)\}")
LONGEST_TEMPLATE = 256
# BuildKit makes one build of each.
MOST_IMAGES = 1000


class Template(Value):
    """The names of the images of a matrix."""

    text: str

    @property
    def fields(self) -> list[str]:
        """Return the fields in their order."""
        return FIELD.findall(self.text)

    def format(self, values: Mapping[str, str]) -> str:
        """Return the name of the image with these values."""
        return FIELD.sub(lambda field: values[field.group(1)], self.text)

    def parse(self, name: str) -> dict[str, str] | None:
        """Return the values in the name of an image, None where it is none of this template."""
        match = self._pattern().fullmatch(name)
        return dict(zip(self.fields, match.groups(), strict=True)) if match else None

    def _pattern(self) -> re.Pattern[str]:
        pieces = FIELD.split(self.text)
        # Every second piece is the name of a field.
        return re.compile(
            "".join(f"({PATTERNS[piece]})" if odd % 2 else re.escape(piece) for odd, piece in enumerate(pieces))
        )


def parse_template(text: str) -> Template:
    """Read a template; ImageError where it has a field that does not exist, or one twice."""
    template = Template(text=text)
    known = ", ".join(f"{{{name}}}" for name in PATTERNS)
    for field in template.fields:
        if field not in PATTERNS:
            raise ImageError(f"{text}: there is no field {{{field}}}", hint=f"the fields are {known}")
    if len(set(template.fields)) < len(template.fields):
        raise ImageError(f"{text}: a field occurs twice")
    if not template.fields or len(text) > LONGEST_TEMPLATE:
        raise ImageError(
            f"{text[:LONGEST_TEMPLATE]} has no field, as in app:{{version}}-{{gfx}}", hint=f"the fields are {known}"
        )
    return template


def requirements_of(values: Mapping[str, str]) -> dict[str, str]:
    """Return what an image with these values requires: what `matrix` sets in it, and `pick` holds it against."""
    target = values.get("gfx") or values.get("family") or values.get("gfx|family")
    requirements = {
        "AMD_REQUIRE_GFX": f"gfx={target}" if target else "",
        "AMD_REQUIRE_CPU": f"cpu>={values['cpu']}" if "cpu" in values else "",
        "AMD_REQUIRE_ROCM": f"rocm={values['rocm']}" if "rocm" in values else "",
    }
    return {variable: value for variable, value in requirements.items() if value}


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
