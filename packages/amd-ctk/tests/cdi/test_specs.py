"""Who may write a spec, short of the command around it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from amd_ctk.cdi import specs
from amd_ctk.cdi.generate_options import CdiError, GenerateOptions
from amd_ctk.cdi.specs import FoundGpus, make_spec, require_writable, write_spec
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.settings_file import set_settings
from amdgpu_discovery.discover import find_gpus
from amdgpu_simulator import build_host


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is needed, which only root can make")
def test_another_users_file_is_not_overwritten() -> None:
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    spec = directory / "amd.json"
    spec.write_text("{}")
    os.seteuid(65534)
    try:
        with pytest.raises(CdiError) as refused:
            require_writable(str(spec))
    finally:
        os.seteuid(0)
        shutil.rmtree(directory)

    assert str(refused.value) == (
        f"failed to write CDI spec: {spec} cannot be written: access is refused (run the command with sudo)"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's directory is needed, which only root can make")
def test_a_new_file_in_another_users_directory_needs_sudo() -> None:
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    host = build_host(directory / "host", "mi210-4")
    spec = host.path("/etc/cdi/amd.json")
    wanted = GenerateOptions(output="/etc/cdi/amd.json", language="json", options=CdiOptions())
    # Root makes the directory, and imports what the other user may not read.
    write_spec(FoundGpus(host), wanted)
    os.remove(spec)
    os.seteuid(65534)
    try:
        with pytest.raises(CdiError) as refused:
            write_spec(FoundGpus(host), wanted)
    finally:
        os.seteuid(0)
        shutil.rmtree(directory)

    assert str(refused.value) == (
        f"failed to write CDI spec: {spec} cannot be written: access is refused (run the command with sudo)"
    )


def test_a_spec_with_groups_and_their_errors_finds_the_gpus_once(tmp_path, monkeypatch):
    host = build_host(tmp_path, "mi210-4")
    set_settings(host, {"gpu-groups": ["first=0-1", "bad=99"]})
    found_on = []
    monkeypatch.setattr(specs, "find_gpus", lambda host: found_on.append(host) or find_gpus(host))

    found = FoundGpus(host)
    spec = make_spec(found, CdiOptions())

    names = [device["name"] for device in spec["devices"]]
    assert [name for name in names if name.startswith("group")] == ["group-first"]
    assert list(found.groups.problem_by_name) == ["bad"]
    assert found_on == [host]
