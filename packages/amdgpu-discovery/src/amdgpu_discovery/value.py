"""Immutable values whose import and creation cost next to nothing.

A dataclass would say the same, but importing `dataclasses` takes longer than everything else a container start
does here; see docs/explanation/architecture.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Stand in for the type checker's own, which needs an import."""
        return lambda decorated: decorated


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class ValueType(type):
    """Turns the annotations of a class body into fields, and its assignments into defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueType:
        """Make the class; fields of its base, of which it has one, come first."""
        made = super().__new__(cls, name, bases, namespace)
        own = tuple(namespace.get("__annotations__", ()))
        base: Any = bases[0] if bases else None
        made._fields = base._fields + own if base else own
        made._names = frozenset(made._fields)
        return made

    # Set on every class above; named here for the type checker.
    _fields: tuple[str, ...]
    _names: frozenset[str]


class Value(metaclass=ValueType):
    """Base of immutable records: keyword arguments in, comparison by content, `replace` for a changed copy."""

    def __init__(self, **fields: Any) -> None:
        cls = type(self)
        if fields.keys() != cls._names:
            fields = _completed(cls, fields)
        # At once: one by one takes twice as long, and a start makes hundreds.
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
        """Return the fields in the order they are declared; nested values stay values."""
        return {field: self.__dict__[field] for field in type(self)._fields}


def split_unknown(fields: dict[str, Any], value_type: type[Value]) -> dict[str, Any]:
    """Move those of some fields that a class of values does not have into its field `unknown`, and return all."""
    names = fields.keys() - value_type._names
    fields["unknown"] = tuple([(name, fields.pop(name)) for name in [*fields] if name in names]) if names else ()
    return fields


def _completed(value_type: type[Value], fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the defaults of those that are not given, which stand in the classes; TypeError."""
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
