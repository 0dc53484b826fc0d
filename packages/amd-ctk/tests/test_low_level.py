from __future__ import annotations

from pathlib import Path

import pytest

from amd_ctk.configuration.runtime_program import find_only_crun, pin
from amd_device_spec.settings import read_settings
from amdgpu_discovery.host import Host


def install(directory: Path, name: str) -> str:
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


def test_crun_is_held_on_to_only_where_there_is_no_runc(tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    crun = install(early, "crun")
    directories = [str(early), "relative", str(late)]

    assert find_only_crun([]) == ""
    assert find_only_crun(directories) == crun
    install(late, "runc")
    assert find_only_crun(directories) == ""


@pytest.mark.parametrize(("chosen", "expected"), [("", "/usr/bin/crun"), ("/opt/youki", "/opt/youki")])
def test_a_chosen_runtime_stays(tmp_path: Path, chosen: str, expected: str) -> None:
    host = Host(tmp_path)
    if chosen:
        assert pin(host, chosen)

    assert pin(host, "/usr/bin/crun") is not bool(chosen)
    assert read_settings(host).low_level_runtime == expected
