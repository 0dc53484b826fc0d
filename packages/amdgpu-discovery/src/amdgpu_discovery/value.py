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
    """Turns the annotations of a class body into slots, and its assignments into defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueType:
        """Make the class; fields of its base, of which it has one, come first."""
        own = tuple(namespace.get("__annotations__", ()))
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__slots__"] = own
        made = super().__new__(cls, name, bases, namespace)
        base: Any = bases[0] if bases else None
        made._fields = base._fields + own if base else own
        made._defaults = {**base._defaults, **defaults} if base else defaults
        return made

    # Set on every class above; named here for the type checker.
    _fields: tuple[str, ...]
    _defaults: dict[str, Any]


class Value(metaclass=ValueType):
    """Base of immutable records: keyword arguments in, comparison by content, `replace` for a changed copy."""

    def __init__(self, **fields: Any) -> None:
        put = object.__setattr__
        cls = type(self)
        if len(fields) < len(cls._fields):
            fields = {**cls._defaults, **fields}
        for field in cls._fields:
            if field not in fields:
                raise TypeError(f"{cls.__name__} needs {field}")
            put(self, field, fields[field])
        if len(fields) > len(cls._fields):
            raise TypeError(f"{cls.__name__} has no {', '.join(fields.keys() - set(cls._fields))}")

    def __setattr__(self, field: str, _: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({field}=...)")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {field} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

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
        return {field: getattr(self, field) for field in type(self)._fields}

    def _content(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field) for field in type(self)._fields)


def _rebuild(kind: type[Value], fields: dict[str, Any]) -> Value:
    return kind(**fields)
