"""Images as directories and archives, made file by file."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile

import pytest

from amd_gpu_images.sources import Beginning

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def pack(*files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in files:
            path, content = file if isinstance(file, tuple) else (file, b"x")
            member = path if isinstance(path, tarfile.TarInfo) else tarfile.TarInfo(path)
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Layout:
    """An OCI image layout."""

    def __init__(self, directory):
        self.directory = directory
        self.manifests = []
        (directory / "blobs/sha256").mkdir(parents=True)
        self.write_index()

    def add(self, *contents, tag="", compress=gzip.compress, annotations=None, platform=None, config=None):
        """Add an image with these layers, the lowest first."""
        config = self.add_blob(json.dumps({"config": config or {}}).encode())
        blobs = [self.add_blob(compress(layer)) for layer in contents]
        manifest = self.add_blob(json.dumps({"config": config, "layers": blobs}).encode())
        named = {"org.opencontainers.image.ref.name": tag} if tag else {}
        entry = {**manifest, "mediaType": MANIFEST, "annotations": {**named, **(annotations or {})}}
        self.manifests.append({**entry, "platform": platform} if platform else entry)
        self.write_index()
        return self

    def add_blob(self, content):
        digest = hashlib.sha256(content).hexdigest()
        self.path_of(digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def path_of(self, digest):
        return self.directory / "blobs/sha256" / digest.removeprefix("sha256:")

    def write_index(self):
        (self.directory / "index.json").write_text(json.dumps({"manifests": self.manifests}))


@pytest.fixture
def make_layer():
    """Return a function that makes a layer; a file is a path, a path and its content, or a member of an archive."""
    return pack


@pytest.fixture
def layout(tmp_path):
    """Return an empty OCI image layout."""
    return Layout(tmp_path / "layout")


@pytest.fixture(params=["file", "stream"])
def reader(request, monkeypatch):
    """Read layers that are files, and layers as they come inside of an archive."""
    if request.param == "stream":
        monkeypatch.setattr(Beginning, "rewind", lambda _: None)
    return request.param
