"""What is wrong with a CDI spec, whatever machine it is for."""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Place = tuple[str | int, ...]

_TYPE_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "string": "a string",
}
_PATTERN_WORDS = {
    "^/": "not an absolute path",
    "^[^=]+=": "not of the form NAME=VALUE",
    "^[rwm]*$": "not made of r, w and m",
}


class Problem(Value):
    """One thing that is wrong, and the way from the top of the spec to where it is."""

    place: Place
    message: str


def form_problems(spec: object) -> list[Problem]:
    """Return what in a spec breaks the specification; [] if engines that know its version will take it."""
    from amd_device_spec.validate_rules import rule_problems

    problems = schema_problems(spec)
    # The rules are about the content of fields and need these to be there.
    if not problems and isinstance(spec, dict):
        problems = list(rule_problems(spec))
    return problems


def schema_problems(spec: object) -> list[Problem]:
    """Return which fields are missing, unknown or of the wrong kind."""
    from jsonschema import Draft7Validator

    errors = Draft7Validator(_read_schema()).iter_errors(spec)
    # jsonschema names two missing fields in two errors, each of which knows of both.
    return list(dict.fromkeys(problem for error in errors for problem in _describe(error)))


def format_place(place: Place) -> str:
    """Return a place as people write it: devices[0].name; what is not printable is escaped."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    return text if text.isprintable() else ascii(text)


def _read_schema() -> dict[str, Any]:
    import json
    from importlib.resources import files

    text = files("amd_device_spec").joinpath("schema/cdi.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _describe(error: Any) -> Iterator[Problem]:
    """Say what a complaint of jsonschema means for the author of a spec."""
    place = tuple(error.absolute_path)
    if error.validator == "required":
        for field in (field for field in error.validator_value if field not in error.instance):
            yield Problem(place=place, message=f"the field {field} is missing")
    elif error.validator == "additionalProperties" and error.validator_value is False:
        for field in sorted(map(str, set(error.instance) - set(error.schema["properties"]))):
            yield Problem(place=(*place, field), message="CDI has no such field")
    else:
        yield Problem(place=place, message=_sentence(error))


def _sentence(error: Any) -> str:
    if error.validator == "type":
        return f"not {_TYPE_WORDS[error.validator_value]}"
    if error.validator == "enum":
        return f"none of {', '.join(word for word in error.validator_value if word)}"
    if error.validator == "pattern":
        return _PATTERN_WORDS[error.validator_value]
    if error.validator in {"minItems", "minLength"}:
        return "empty"
    bounds = {"minimum": "less than", "maximum": "more than", "maxLength": "longer than"}
    return f"{bounds[error.validator]} {error.validator_value}"
