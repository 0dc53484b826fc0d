"""The JSON documents of an image; they are not trusted, so each is bounded and checked."""

from __future__ import annotations

import json
from typing import Any

from amd_ctk.image.bounds import ImageError

# OCI distribution specification: registries take manifests of at least this size, and engines refuse larger ones.
LARGEST_DOCUMENT = 4 * 1024 * 1024


def parse_document(content: bytes, name: str) -> dict[str, Any]:
    """Return the object that a document of an image is; ImageError."""
    if len(content) > LARGEST_DOCUMENT:
        raise ImageError(f"{name} is larger than 4 MiB")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{name} is not JSON") from error
    if not isinstance(document, dict):
        raise ImageError(f"{name} is not a JSON object")
    return document


def objects_in(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a document, [] if there is none."""
    found = document.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def object_in(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an object in a document, {} if there is none."""
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def texts_in(document: dict[str, Any], key: str) -> dict[str, str]:
    """Return the texts of an object in a document by their names: annotations, labels."""
    return {name: value for name, value in object_in(document, key).items() if isinstance(value, str)}


def environment_of(configuration: dict[str, Any]) -> tuple[str, ...]:
    """Return the environment that an image's configuration sets."""
    entries = object_in(configuration, "config").get("Env")
    return tuple(entry for entry in entries if isinstance(entry, str)) if isinstance(entries, list) else ()


def labels_of(configuration: dict[str, Any]) -> dict[str, str]:
    """Return the labels of an image's configuration."""
    return texts_in(object_in(configuration, "config"), "Labels")
