"""Engines read the archive of the image that installs the toolkit: as an OCI layout, and as one of `docker save`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return the files of an archive whose layer has one program."""
    monkeypatch.syspath_prepend(CHECKOUT / "packaging")
    import node_image

    program = tmp_path / "root/opt/program"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    with tarfile.open(fileobj=io.BytesIO(node_image.format_image(node_image.format_layer(tmp_path / "root")))) as file:
        return {member.name: file.extractfile(member).read() for member in file.getmembers()}


def blob(image: dict[str, bytes], descriptor: dict[str, object]) -> bytes:
    """Return what a descriptor names, if size and digest are right."""
    content = image[str(descriptor["digest"]).replace(":", "/", 1).replace("sha256/", "blobs/sha256/")]
    assert (descriptor["size"], descriptor["digest"]) == (
        len(content),
        f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    return content


def test_the_oci_layout_leads_to_one_layer_of_roots_files(image: dict[str, bytes]) -> None:
    assert json.loads(image["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [described] = json.loads(image["index.json"])["manifests"]
    manifest = json.loads(blob(image, described))
    config = json.loads(blob(image, manifest["config"]))
    [layer] = manifest["layers"]
    content = gzip.decompress(blob(image, layer))

    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert config["config"]["Cmd"] == ["--help"]
    with tarfile.open(fileobj=io.BytesIO(content)) as file:
        members = [(member.name, member.mode, member.uid, member.uname) for member in file.getmembers()]
    assert members == [("opt", 0o755, 0, "root"), ("opt/program", 0o755, 0, "root")]


def test_docker_before_25_finds_the_same_config_and_layer(image: dict[str, bytes]) -> None:
    [described] = json.loads(image["index.json"])["manifests"]
    manifest = json.loads(blob(image, described))
    [loaded] = json.loads(image["manifest.json"])

    assert image[loaded["Config"]] == blob(image, manifest["config"])
    assert [image[name] for name in loaded["Layers"]] == [blob(image, manifest["layers"][0])]
    assert loaded["RepoTags"] == [f"amd-container-toolkit:{(CHECKOUT / 'VERSION').read_text().strip()}"]
