"""Pack images in the format that engines exchange, for engines that accept no bare root file system."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def pack_oci(rootfs_archive: Path, archive: Path, name: str, command: Sequence[str] = ("sh",)) -> Path:
    """Write an image of one layer, a packed root file system, as an OCI archive; return the archive."""
    layer = rootfs_archive.read_bytes()
    config = _json({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": [*command], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    })  # fmt: skip
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config),
        "layers": [_descriptor(LAYER, layer)],
    })  # fmt: skip
    named = {**_descriptor(MANIFEST, manifest), "annotations": {"io.containerd.image.name": name}}
    with tarfile.open(archive, "w") as file:
        _add(file, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(file, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in (layer, config, manifest):
            _add(file, f"blobs/sha256/{_digest(blob).partition(':')[2]}", blob)
    return archive


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _add(file: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    file.addfile(member, io.BytesIO(content))
