"""Say the fields of a profile's values in JSON, and read them back."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.value import Value

# Numbers that people know in hexadecimal, or in octal; JSON has them as text.
HEXADECIMAL = frozenset(
    (
        *("device_id", "vendor_id", "subsystem_vendor", "subsystem_device", "revision", "pci_class"),
        *("hive_id", "pci_unique_id", "kfd_unique_ids"),
    )
)
OCTAL = frozenset(("card_mode", "render_mode"))

WORDS_BY_TYPE: dict[str, tuple[type, str]] = {
    "int": (int, "a number"),
    "str": (str, "text"),
    "bool": (bool, "true or false"),
    "tuple": (tuple, "a list"),
    "dict": (dict, "an object"),
}


def read_fields(value_type: type[Value], fields: dict[str, Any]) -> dict[str, Any]:
    """Return JSON's fields as those of a value of this type; ValueError for one of a wrong type."""
    annotations: dict[str, str] = {}
    for base in reversed(value_type.__mro__):
        annotations |= vars(base).get("__annotations__", {})
    return {name: _checked(name, _read(name, field), annotations.get(name, "")) for name, field in fields.items()}


def plain_fields(value: Value) -> dict[str, Any]:
    """Return the fields of a value as JSON has them, without those that are as by default."""
    value_type = type(value)
    return {
        name: _plain(name, field)
        for name, field in value.as_dict().items()
        # A default is an attribute of the class.
        if not hasattr(value_type, name) or field != getattr(value_type, name)
    }


def require(field: Any, wanted: type[Any], sentence: str) -> Any:
    """Return a field if it is of the wanted type; else the sentence says what it should be in a ValueError."""
    if not isinstance(field, wanted):
        raise ValueError(f"{sentence}, not {field!r}")  # noqa: TRY004 - said like every other mistake in a profile
    return field


def _checked(name: str, field: Any, annotation: str) -> Any:
    if field is None and annotation.endswith("None"):
        return None
    # "tuple[int, ...]" is a tuple, "int | None" a number.
    wanted, words = WORDS_BY_TYPE.get(annotation.partition("[")[0].partition(" ")[0], (object, ""))
    return require(field, wanted, f"{name} is {words}")


def _read(name: str, field: Any) -> Any:
    if isinstance(field, list):
        return tuple(_read(name, item) for item in field)
    if isinstance(field, str) and name in HEXADECIMAL:
        return int(field, 16)
    if isinstance(field, str) and name in OCTAL:
        return int(field, 8)
    return field


def _plain(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return [_plain(name, item) for item in field]
    if isinstance(field, int) and name in HEXADECIMAL:
        return f"0x{field:x}"
    return f"{field:o}" if name in OCTAL else field
