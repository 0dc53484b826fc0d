"""Finds errors in a CDI spec that are errors on every machine."""

from __future__ import annotations

from amd_device_spec.cdi import ALPHANUMERIC, LABEL_CHARACTERS, kind_problem, name_problem
from amd_device_spec.cdi.version import VERSIONS, needed_version
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Location = tuple[str | int, ...]


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
# In bytes, for all annotations of a device together.
LONGEST_ANNOTATIONS = 256 * 1024
LONGEST_LABEL = 63
# Nobody would read more.
MOST_ERRORS = 1000
LONGEST_PREFIX = 253


class Problem(Value):
    """One error in a CDI spec.

    Attributes:
        location: Keys and positions from the top of the spec to the error, such as `("devices", 0, "name")`.
        message: What is wrong, in one clause.
    """

    location: Location
    message: str


def form_problems(spec: object) -> list[Problem]:
    """Return what in a CDI `spec` breaks the specification; [] if engines that know its version accept it."""
    problems = schema_problems(spec)
    # The rules check the content of fields, so the fields must exist.
    if not problems and isinstance(spec, dict):
        problems = list(rule_problems(spec))
    return problems


def schema_problems(spec: object) -> list[Problem]:
    """Return errors about fields that are missing, unknown or of the wrong kind."""
    from itertools import islice

    from jsonschema import Draft7Validator

    errors = islice(Draft7Validator(_read_schema()).iter_errors(spec), MOST_ERRORS)
    # If two fields are missing, jsonschema yields two errors that name both.
    return list(dict.fromkeys(problem for error in errors for problem in _describe(error)))


def format_location(location: Location) -> str:
    """Return a location as people write it, such as devices[0].name; unprintable text is escaped."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")
    return printable(text)


def printable(text: str) -> str:
    """Return text of a spec for display, escaped if any of it is not printable."""
    return text if text.isprintable() else ascii(text)


def _read_schema() -> dict[str, Any]:
    import json
    from importlib.resources import files

    text = files("amd_device_spec").joinpath("schema/cdi.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _describe(error: Any) -> Iterator[Problem]:
    """Translate an error of jsonschema for the author of a spec."""
    location = tuple(error.absolute_path)
    if error.validator == "required":
        for field in (field for field in error.validator_value if field not in error.instance):
            yield Problem(location=location, message=f"the field {field} is missing")
    elif error.validator == "additionalProperties" and error.validator_value is False:
        for field in sorted(map(str, set(error.instance) - set(error.schema["properties"]))):
            yield Problem(location=(*location, field), message="CDI has no such field")
    else:
        yield Problem(location=location, message=_sentence(error))


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


def rule_problems(spec: dict[str, Any]) -> Iterator[Problem]:
    """Yield the errors of a spec that the schema accepts."""
    yield from _version_problems(spec)
    if problem := kind_problem(spec["kind"]):
        yield Problem(location=("kind",), message=f"{spec['kind']!r} {problem}")
    yield from _annotation_problems(spec, ())
    yield from _device_problems(spec["devices"])


def _version_problems(spec: dict[str, Any]) -> Iterator[Problem]:
    version = spec["cdiVersion"]
    if version not in VERSIONS:
        yield Problem(location=("cdiVersion",), message=f"CDI has no version {version!r}")
        return
    need = needed_version(spec)
    if VERSIONS.index(version) < VERSIONS.index(need.version):
        yield Problem(location=need.location, message=f"{need.content} needs cdiVersion {need.version}, not {version}")


def _device_problems(devices: list[dict[str, Any]]) -> Iterator[Problem]:
    first_by_name: dict[str, int] = {}
    for position, device in enumerate(devices):
        name = device["name"]
        location = ("devices", position)
        if problem := name_problem(name):
            yield Problem(location=(*location, "name"), message=f"{name!r} {problem}")
        if name in first_by_name:
            message = f"{name!r} is the name of devices[{first_by_name[name]}] already"
            yield Problem(location=(*location, "name"), message=message)
        first_by_name.setdefault(name, position)
        if not any(device["containerEdits"].values()):
            yield Problem(location=(*location, "containerEdits"), message="empty")
        yield from _annotation_problems(device, location)


def _annotation_problems(owner: dict[str, Any], location: Location) -> Iterator[Problem]:
    annotations = owner.get("annotations", {})
    for key in annotations:
        if problem := _annotation_key_problem(key):
            yield Problem(location=(*location, "annotations", key), message=problem)
    # JSON and YAML can hold half of a character (a surrogate), which UTF-8 cannot.
    size = sum(len(part.encode("utf-8", "surrogatepass")) for pair in annotations.items() for part in pair)
    if size > LONGEST_ANNOTATIONS:
        yield Problem(location=(*location, "annotations"), message=f"longer than {LONGEST_ANNOTATIONS} bytes")


def _annotation_key_problem(key: str) -> str:
    prefix, slash, label = key.rpartition("/")
    if slash and not _is_domain(prefix):
        return f"{prefix!r} is not a DNS name in lower case"
    return "" if _is_label(label) else f"{label!r} is not a word of letters, digits, '-', '_' and '.'"


def _is_domain(prefix: str) -> bool:
    plain = prefix.isascii() and prefix == prefix.lower() and "_" not in prefix and len(prefix) <= LONGEST_PREFIX
    return plain and all(_is_label(label) for label in prefix.split("."))


def _is_label(label: str) -> bool:
    if not label or len(label) > LONGEST_LABEL or set(label) - LABEL_CHARACTERS:
        return False
    return label[0] in ALPHANUMERIC and label[-1] in ALPHANUMERIC
