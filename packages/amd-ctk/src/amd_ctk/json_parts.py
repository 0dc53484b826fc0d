"""What stands at keys of JSON that others wrote: empty where it is missing or of another kind."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def object_at(tree: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return an object, {} if there is none."""
    for key in keys:
        found = tree.get(key)
        tree = found if isinstance(found, dict) else {}
    return tree


def list_at(tree: dict[str, Any], *keys: str) -> list[Any]:
    """Return a list, [] if there is none."""
    found = object_at(tree, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, list) else []


def objects_at(tree: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    """Return the objects of a list, [] if there is none."""
    return [one for one in list_at(tree, *keys) if isinstance(one, dict)]


def texts_at(tree: dict[str, Any], *keys: str) -> dict[str, str]:
    """Return the texts of an object by their names."""
    return {name: value for name, value in object_at(tree, *keys).items() if isinstance(value, str)}
