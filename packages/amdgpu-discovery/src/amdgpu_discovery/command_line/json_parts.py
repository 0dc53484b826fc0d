"""Read parts of JSON from other programs; a part that is missing or of another type is empty."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def object_at(tree: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the object at these nested keys; {} if there is none."""
    for key in keys:
        found = tree.get(key)
        tree = found if isinstance(found, dict) else {}
    return tree


def list_at(tree: dict[str, Any], *keys: str) -> list[Any]:
    """Return the list at these nested keys; [] if there is none."""
    found = object_at(tree, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, list) else []


def objects_at(tree: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    """Return the objects in the list at these nested keys; [] if there is none."""
    return [one for one in list_at(tree, *keys) if isinstance(one, dict)]


def texts_at(tree: dict[str, Any], *keys: str) -> dict[str, str]:
    """Return the strings in the object at these nested keys, by their names."""
    return {name: value for name, value in object_at(tree, *keys).items() if isinstance(value, str)}
