"""Immutable values whose import and creation cost next to nothing.

A dataclass would do the same, but importing `dataclasses` takes longer than everything else in a container start; see
docs/explanation/architecture.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Replace the type checker's decorator, which needs an import."""
        return lambda decorated: decorated


OR_NONE = " | None"
AND_MORE = ", ..."
# Types that a plain field of JSON may have, by annotation. True is an int to Python, but not a number.
PLAIN: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
PLAIN |= {kind + OR_NONE: (*types, type(None)) for kind, types in PLAIN.items()}
KIND_NAMES = {"int": "a number", "float": "a number", "str": "text", "bool": "true or false"}


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class ValueType(type):
    """Turns the annotations of a class body into fields, and its assignments into defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueType:
        """Make the class; the fields of its base, if it has one, come first."""
        made = super().__new__(cls, name, bases, namespace)
        own: dict[str, str] = namespace.get("__annotations__", {})
        base: Any = bases[0] if bases else None
        made._fields = {**base._fields, **own} if base else own
        made._names = frozenset(made._fields)
        return made

    def fields(cls) -> dict[str, str]:
        """Return the annotation of each field by its name, in the order of their declaration."""
        return cls._fields

    # Annotations by name. Set on every class above; declared here for the type checker.
    _fields: dict[str, str]
    _names: frozenset[str]
    # Set by the first `from_json`.
    _plain: dict[str, tuple[type, ...]]


class Value(metaclass=ValueType):
    """Base of immutable records: keyword arguments in, comparison by content, `replace` for a changed copy."""

    def __init__(self, **fields: Any) -> None:
        cls = type(self)
        if fields.keys() != cls._names:
            fields = _completed(cls, fields)
        # All at once: one by one takes twice as long, and a start makes hundreds.
        object.__setattr__(self, "__dict__", fields)

    def __setattr__(self, field: str, _: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({field}=...)")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {field} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.as_dict().values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{field}={getattr(self, field)!r}" for field in type(self)._fields)
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.as_dict())

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these fields changed."""
        return type(self)(**{**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields in the order of their declaration; nested values stay values."""
        return {field: self.__dict__[field] for field in type(self)._fields}

    @classmethod
    def from_json(cls, fields: Any, types: Mapping[str, type[Value]] = {}) -> Self:
        """Return a value of JSON's fields, checked by the annotations; ValueError. `types` are nested values, by name.

        Fields that the class does not know come from a later version, and go into its field `unknown`, if it has one.
        """
        if type(fields) is not dict:
            raise ValueError(f"{cls.__name__} is an object, not {_shown(fields)}")
        if "_plain" not in cls.__dict__:
            cls._plain = {name: PLAIN.get(kind, ()) for name, kind in cls._fields.items()}
        plain = cls._plain
        # Most fields are plain, and a start reads the leases of all containers.
        known = {
            name: field if type(field) in plain[name] else parse_field(name, cls._fields[name], field, types)
            for name, field in fields.items()
            if name in plain
        }
        if "unknown" in plain:
            later = fields.items() if len(known) < len(fields) else ()
            known["unknown"] = tuple([each for each in later if each[0] not in plain])
        if len(known) < len(plain):
            try:
                _completed(cls, known)
            except TypeError as error:
                raise ValueError(str(error)) from error
        value = cls.__new__(cls)
        object.__setattr__(value, "__dict__", known)
        return value


def parse_field(name: str, annotation: str, field: Any, types: Mapping[str, type[Value]]) -> Any:
    """Return a JSON field in the type of an annotation; ValueError names the field."""
    if annotation in PLAIN:
        if type(field) in PLAIN[annotation]:
            return field
        raise ValueError(f"{name} is {KIND_NAMES[annotation.removesuffix(OR_NONE)]}, not {_shown(field)}")
    if annotation.endswith(OR_NONE):
        return None if field is None else parse_field(name, annotation[: -len(OR_NONE)], field, types)
    if annotation in types:
        return types[annotation].from_json(field, types)
    kind, _, inside = annotation.removesuffix("]").partition("[")
    if kind == "tuple":
        return tuple(_parse_items(name, inside, field, types))
    if kind == "dict":
        return dict(_parse_pairs(name, inside, field, types))
    if annotation != "Any":
        raise TypeError(f"{name}: JSON has no {annotation}")
    return field


def _parse_items(name: str, inside: str, field: Any, types: Mapping[str, type[Value]]) -> Iterable[Any]:
    if type(field) is not list:
        raise ValueError(f"{name} is a list, not {_shown(field)}")
    if inside.endswith(AND_MORE):
        kind = inside[: -len(AND_MORE)]
        plain = PLAIN.get(kind, ())
        return [item if type(item) in plain else parse_field(name, kind, item, types) for item in field]
    kinds = inside.split(", ")
    if len(field) != len(kinds):
        raise ValueError(f"{name} is a list of {len(kinds)}, not of {len(field)}")
    return [parse_field(name, kind, item, types) for kind, item in zip(kinds, field, strict=True)]


def _parse_pairs(name: str, inside: str, field: Any, types: Mapping[str, type[Value]]) -> Iterable[tuple[Any, Any]]:
    if type(field) is not dict:
        raise ValueError(f"{name} is an object, not {_shown(field)}")
    key_kind, _, kind = inside.partition(", ")
    # Keys in JSON are always text.
    key_of = int if key_kind == "int" else str
    return [(key_of(key), parse_field(name, kind, item, types)) for key, item in field.items()]


def _shown(field: Any) -> str:
    """Return wrong JSON for a message, without looking into lists and objects, which may be deep."""
    if type(field) is list:
        return "a list"
    return "an object" if type(field) is dict else f"{field!r:.80}"


def _completed(value_type: type[Value], fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields completed by the defaults in their class; TypeError for a missing or unknown one."""
    for field in value_type._fields:
        if field not in fields:
            try:
                fields[field] = getattr(value_type, field)
            except AttributeError:
                raise TypeError(f"{value_type.__name__} needs {field}") from None
    if len(fields) > len(value_type._fields):
        raise TypeError(f"{value_type.__name__} has no {', '.join(fields.keys() - value_type._names)}")
    return fields


def _rebuild(value_type: type[Value], fields: dict[str, Any]) -> Value:
    return value_type(**fields)
