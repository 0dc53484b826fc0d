"""The spec of a bundle, which anybody may have written."""

from __future__ import annotations

import os

import pytest

from amd_ctk.explain import running
from amd_ctk.explain.running import read_bundle
from amdgpu_discovery.errors import FileError


def test_a_bundle_is_read(tmp_path):
    (tmp_path / "config.json").write_text('{"process": {}}')

    assert read_bundle(str(tmp_path)) == {"process": {}}


@pytest.mark.timeout(5)
def test_a_pipe_is_no_bundle(tmp_path):
    os.mkfifo(tmp_path / "config.json")

    with pytest.raises(FileError, match=r"config\.json cannot be read: it is not a plain file"):
        read_bundle(str(tmp_path))


def test_a_large_bundle_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LARGEST_CONFIG", 10)
    (tmp_path / "config.json").write_text('{"process": {}}')

    with pytest.raises(FileError, match=r"config\.json cannot be read: it is too large"):
        read_bundle(str(tmp_path))


@pytest.mark.parametrize(
    "spec",
    [
        '{"linux": {"devices": [7]}}',
        '{"linux": {"resources": {"devices": ["c 226:128 rw"]}}}',
        '{"process": {"env": "AMD_VISIBLE_DEVICES=0"}}',
    ],
)
def test_a_spec_that_no_runtime_accepts_is_refused(tmp_path, spec):
    (tmp_path / "config.json").write_text(spec)

    with pytest.raises(FileError, match=r"config\.json is not a spec: "):
        read_bundle(str(tmp_path))
