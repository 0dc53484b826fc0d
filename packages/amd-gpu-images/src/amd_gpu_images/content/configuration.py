"""Parse the JSON documents of an image. They are not trusted, so size and type of each are checked."""

from __future__ import annotations

import json
from typing import Any

from amd_gpu_images.bounds import ImageError
from amd_gpu_images.content.contents import Image
from amdgpu_discovery.command_line.json_parts import list_at, object_at, texts_at

# OCI distribution specification: registries accept manifests of at least this size. Engines refuse larger ones.
LARGEST_IMAGE_DOCUMENT = 4 * 1024 * 1024


def parse_document(content: bytes, name: str) -> dict[str, Any]:
    """Parse a document of an image, which must be a JSON object; ImageError."""
    if len(content) > LARGEST_IMAGE_DOCUMENT:
        raise ImageError(f"{name} is larger than 4 MiB")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{name} is not JSON") from error
    if not isinstance(document, dict):
        raise ImageError(f"{name} is not a JSON object")
    return document


def describe(descriptor: dict[str, Any], manifest: dict[str, Any], configuration: dict[str, Any]) -> Image:
    """Return an image without layers, as far as these documents describe it. Any of them may be empty."""
    configured = object_at(configuration, "config")
    return Image(
        layers=(),
        environment=tuple(entry for entry in list_at(configured, "Env") if isinstance(entry, str)),
        labels=texts_at(configured, "Labels"),
        annotations={**texts_at(manifest, "annotations"), **texts_at(descriptor, "annotations")},
        cpu=_cpu_of(descriptor),
    )


def _cpu_of(descriptor: dict[str, Any]) -> str:
    """Return the x86-64 level that an index entry requires; "" if it requires none."""
    platform = object_at(descriptor, "platform")
    variant = platform.get("variant")
    is_level = platform.get("architecture") == "amd64" and variant in ("v1", "v2", "v3", "v4")
    return f"x86-64-{variant}" if is_level else ""
