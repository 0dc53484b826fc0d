"""The names of images of one matrix: `app:{version}-{gfx}` makes them, and reads out of a name what it is for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from amd_ctk.image.bounds import ImageError
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
