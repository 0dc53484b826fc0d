"""Which program really makes containers."""

from __future__ import annotations

import pytest

from amd_container_runtime import low_level
from amd_container_runtime.low_level import NoLowLevelRuntime, find_low_level_runtime, maker_of


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Return a function that makes a directory with programs; no other directory of this machine is looked at."""
    monkeypatch.setattr(low_level, "USUAL_DIRECTORIES", (str(tmp_path / "usual"),))

    def make(name, *programs):
        path = tmp_path / name
        path.mkdir()
        for program in programs:
            (path / program).write_text("#!/bin/sh\n")
            (path / program).chmod(0o755)
        return str(path)

    return make


def test_runc_is_preferred_wherever_it_is(directory):
    first = directory("first", "crun")
    usual = directory("usual", "runc", "crun")

    assert find_low_level_runtime("", first, ourselves="/nowhere") == f"{usual}/runc"


def test_crun_serves_where_there_is_no_runc(directory):
    first = directory("first", "crun")

    assert find_low_level_runtime("", first, ourselves="/nowhere") == f"{first}/crun"


@pytest.mark.parametrize("search_path", ["", ":", ".:relative"])
def test_without_a_useful_path_the_usual_directories_are_searched(directory, monkeypatch, tmp_path, search_path):
    directory("relative", "runc")
    usual = directory("usual", "runc")
    monkeypatch.chdir(tmp_path)

    assert find_low_level_runtime("", search_path, ourselves="/nowhere") == f"{usual}/runc"


def test_what_the_administrator_names_is_used_and_nothing_else(directory):
    first = directory("first", "runc", "youki")
    last = directory("last", "runc")

    assert find_low_level_runtime("youki", first, ourselves="/nowhere") == f"{first}/youki"
    assert find_low_level_runtime(f"{last}/runc", first, ourselves="/nowhere") == f"{last}/runc"


def test_this_program_is_never_its_own_runc_under_any_name(directory, tmp_path):
    first = directory("first", "own")
    (tmp_path / "first/runc").symlink_to("own")
    usual = directory("usual", "runc")

    assert find_low_level_runtime("", first, ourselves=f"{first}/own") == f"{usual}/runc"


@pytest.mark.parametrize("spoil", [lambda runc: runc.chmod(0o644), lambda runc: (runc.unlink(), runc.mkdir())])
def test_what_cannot_be_run_is_passed_over(directory, tmp_path, spoil):
    first = directory("first", "runc")
    spoil(tmp_path / "first/runc")
    usual = directory("usual", "runc")

    assert find_low_level_runtime("", first, ourselves="/nowhere") == f"{usual}/runc"


def test_a_machine_without_any_runtime_is_told_what_to_install(directory):
    with pytest.raises(NoLowLevelRuntime) as refusal:
        find_low_level_runtime("", directory("first"), ourselves="/nowhere")

    assert str(refusal.value) == (
        "there is no runc and no crun to hand the container to (install runc with 'apt install runc')"
    )
    assert refusal.value.exit_code == 7


def keep_state(directory, container_id, file):
    (directory / container_id).mkdir(parents=True, exist_ok=True)
    (directory / container_id / file).write_text("{}")


def test_the_maker_of_a_container_is_the_runtime_whose_state_file_is_there(tmp_path):
    keep_state(tmp_path, "c1", "state.json")
    keep_state(tmp_path, "c2", "status")

    assert maker_of(["c1"], str(tmp_path), {}) == "runc"
    assert maker_of(["c2"], str(tmp_path), {}) == "crun"
    assert maker_of(["--force", "no-container", "c2", "c1"], str(tmp_path), {}) == "crun"
    assert maker_of(["c3"], str(tmp_path), {}) == ""


def test_a_container_of_which_both_runtimes_keep_state_has_no_known_maker(tmp_path):
    keep_state(tmp_path, "c1", "state.json")
    keep_state(tmp_path, "c1", "status")
    keep_state(tmp_path, "c2", "status")

    assert maker_of(["c1", "c2"], str(tmp_path), {}) == ""


def test_without_a_root_the_state_is_looked_for_in_the_users_runtime_directory_too(tmp_path):
    keep_state(tmp_path / "crun", "of-a-user", "status")

    assert maker_of(["of-a-user"], "", {"XDG_RUNTIME_DIR": str(tmp_path)}) == "crun"
    assert maker_of(["of-a-user"], "", {}) == ""
