from __future__ import annotations

from pathlib import Path

import pytest

from amd_ctk.configuration import runtime_program
from amd_ctk.configuration.runtime_program import find_only_crun, pin
from amd_ctk.doctor.facts import toolkit
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


def test_the_usual_runtime_is_found_where_the_caller_has_no_path_to_it(tmp_path: Path, monkeypatch) -> None:
    install(tmp_path / "bin", "crun")
    runc = install(tmp_path / "sbin", "runc")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(runtime_program, "LOW_LEVEL_DIRECTORIES", (str(tmp_path / "sbin"),))

    assert runtime_program.usual_runtime() == runc


@pytest.mark.parametrize(("chosen", "expected"), [("", "/usr/bin/crun"), ("/opt/youki", "/opt/youki")])
def test_a_chosen_runtime_stays(tmp_path: Path, chosen: str, expected: str) -> None:
    host = Host(tmp_path)
    if chosen:
        assert pin(host, chosen)

    assert pin(host, "/usr/bin/crun") is not bool(chosen)
    assert read_settings(host).low_level_runtime == expected


def test_doctor_finds_runc_where_the_runtime_finds_it_behind_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "sbin", "runc")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(runtime_program, "LOW_LEVEL_DIRECTORIES", (f"{tmp_path}/sbin",))

    assert toolkit.read_toolkit(Host(tmp_path)).has_low_level
    (tmp_path / "sbin/runc").unlink()
    assert not toolkit.read_toolkit(Host(tmp_path)).has_low_level
