"""Say values in JSON, and read them back: each field has the type that its class names, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amdgpu_discovery.value import Value

PLAIN: dict[str, type] = {"int": int, "str": str, "bool": bool}
OR_NONE = " | None"
# A container can have 100,000 mounts; checks look at the first of a list, or at all GPUs.
MOST_ITEMS = 1024


def format_value(value: object) -> Any:
    """Return what JSON has for a value, a list of them, or anything plain."""
    if isinstance(value, Value):
        return {name: format_value(field) for name, field in value.as_dict().items()}
    if isinstance(value, tuple):
        return [format_value(item) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name): format_value(item) for name, item in value.items()}
    return value


def parse_value(value_type: type[Value], fields: Any, types: Mapping[str, type[Value]]) -> Value:
    """Return the value that JSON's fields describe; ValueError. `types` are those that fields may have, by name.

    A field that the class does not know is of a later version, and left out.
    """
    annotations = _annotations(value_type)
    if not isinstance(fields, dict):
        raise ValueError(f"{value_type.__name__} is an object, not {fields!r:.80}")  # noqa: TRY004 - of JSON
    known = {name: _parse(annotations[name], field, types) for name, field in fields.items() if name in annotations}
    try:
        return value_type(**known)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _annotations(value_type: type[Value]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(value_type.__mro__):
        found |= vars(base).get("__annotations__", {})
    return found


def _parse(annotation: str, field: Any, types: Mapping[str, type[Value]]) -> Any:
    if annotation.endswith(OR_NONE):
        return None if field is None else _parse(annotation.removesuffix(OR_NONE), field, types)
    name, _, inside = annotation.partition("[")
    if name == "tuple":
        item = inside.removesuffix(", ...]")
        return tuple(_parse(item, one, types) for one in _require(field, list, annotation))
    if name == "dict":
        key, item = inside.removesuffix("]").split(", ")
        pairs = _require(field, dict, annotation).items()
        return {PLAIN[key](one): _parse(item, other, types) for one, other in pairs}
    if name in types:
        return parse_value(types[name], field, types)
    return _require(field, PLAIN[name], annotation)


def _require(field: Any, wanted: type, annotation: str) -> Any:
    # True is an int to Python, and no number.
    if type(field) is not wanted:
        raise ValueError(f"{annotation} is expected, not {field!r:.80}")
    return field
