"""Writing an index with skopeo: a fake program on PATH, which has recorded answers."""

from __future__ import annotations

import json

import pytest

from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content.contents import Image
from amd_gpu_images.registries.registry import Found
from amd_gpu_images.registries.registry_index import Entry, parse_index_name, read_entries, write_index
from amd_gpu_images.registries.registry_name import parse_registry_name
from amd_gpu_images.registries.registry_programs import Manifest

DIGEST = f"sha256:{'a' * 64}"
ENTRY = Entry(
    found=Found(
        name=parse_registry_name(f"r.example/other@{DIGEST}"),
        manifest=Manifest(content={}, digest=DIGEST, text="{}"),
        image=Image(layers=()),
        platform={},
    ),
    descriptor={"annotations": {}},
)


@pytest.fixture
def skopeo(tmp_path, monkeypatch):
    """Return a function that makes a skopeo, which ends with an error, or well where it has none."""
    monkeypatch.setenv("PATH", f"{tmp_path}")

    def make(error):
        (tmp_path / "skopeo").write_text(f"#!/bin/sh\n{f'echo {error!r} >&2; exit 1' if error else ''}\n")
        (tmp_path / "skopeo").chmod(0o755)

    return make


def test_each_copy_is_announced(skopeo, capfd):
    skopeo("")

    write_index(parse_index_name("r.example/app:1"), [ENTRY])

    assert capfd.readouterr().err == f"copying r.example/other@{DIGEST} to r.example/app\n"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("unknown flag: --preserve-digests", "this skopeo writes no index (it needs skopeo 1.6 or later)"),
        ("writing blob: unauthorized: authentication required",
         ("r.example/app:1 does not exist, or you are not logged in to its registry"
          " (skopeo login r.example; skopeo: writing blob: unauthorized: authentication required)")),
        ("name unknown: no such repository",
         "r.example/app:1 cannot be written (skopeo: name unknown: no such repository)"),
        ("received unexpected HTTP status: 507 Insufficient Storage",
         "r.example/app:1 cannot be written (skopeo: received unexpected HTTP status: 507 Insufficient Storage)"),
    ],
)  # fmt: skip
def test_a_refused_copy_has_a_next_step(error, says, skopeo):
    skopeo(error)

    with pytest.raises(ImageError) as caught:
        write_index(parse_index_name("r.example/app:1"), [])

    assert str(caught.value) == says


def test_an_index_is_not_written_to_a_digest():
    with pytest.raises(ImageError) as caught:
        parse_index_name(f"r.example/app@{DIGEST}")

    assert str(caught.value) == (
        f"r.example/app@{DIGEST} names what is there already (give the index a tag, as in registry/app:1.0)"
    )


TOO_LONG = "what it is for takes more than 4096 characters (leave out targets and requirements that it can do without)"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"Env": [f"AMD_REQUIRE_{letter}={'gfx=gfx90a ' * 200}" for letter in "AB"]},
         TOO_LONG),
        ({"Env": ["AMD_REQUIRE_GFX=gfx=gfx90a"], "Labels": {"com.amd.gpu.targets": "gfx90a " * 600}},
         TOO_LONG),
        ({"Env": ["AMD_REQUIRE_my-gpu=gfx=gfx90a"]},
         "AMD_REQUIRE_my-gpu is not the name of a requirement (write AMD_REQUIRE_ and then A-Z, 0-9 and _)"),
    ],
)  # fmt: skip
def test_an_image_that_no_host_could_pick_is_not_joined(config, says, tmp_path, monkeypatch):
    configuration = tmp_path / "config.json"
    configuration.write_text(json.dumps({"config": config}))
    (tmp_path / "skopeo").write_text(
        f'#!/bin/sh\ncase "$*" in *--config*) /bin/cat {configuration};; *) echo "{{}}";; esac\n'
    )
    (tmp_path / "skopeo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")

    with pytest.raises(ImageError) as caught:
        read_entries(["app:1"], Reading())

    assert str(caught.value) == f"app:1 cannot be in an index: {says}"
