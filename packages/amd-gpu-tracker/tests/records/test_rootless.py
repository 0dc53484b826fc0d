"""Who is rootless, and who only looks like it."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.records import rootless
from amd_gpu_tracker.records.rootless import find_user_directory, open_state, outer_uid
from amdgpu_discovery.host import Host

IDENTITY = "         0          0 4294967295\n"
ROOTLESS = "         0       1000          1\n         1     100000      65536\n"
SYSTEM_CONTAINER = "         0     100000      65536\n"


@pytest.mark.parametrize(
    ("uid_map", "uid", "outer"),
    [
        (IDENTITY, 0, None),
        (IDENTITY, 1000, 1000),
        (ROOTLESS, 0, 1000),
        (ROOTLESS, 5, 100004),
        (SYSTEM_CONTAINER, 0, 100000),
        (ROOTLESS, 99999, None),
    ],
)
def test_a_uid_map_tells_who_one_is_outside(uid_map, uid, outer):
    assert outer_uid(uid_map, uid) == outer


def test_a_rootless_run_keeps_its_leases_with_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(rootless, "_read_uid_map", lambda: ROOTLESS)

    assert find_user_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"{tmp_path}/amd-container-toolkit"
    assert open_state(Host("/"), {"XDG_RUNTIME_DIR": str(tmp_path)}).is_rootless


def test_root_of_a_system_container_has_no_users_directory(monkeypatch):
    monkeypatch.setattr(rootless, "_read_uid_map", lambda: SYSTEM_CONTAINER)
    monkeypatch.setattr("posix.geteuid", lambda: 0)

    assert find_user_directory({}) == ""
    assert open_state(Host("/"), {}).run_directory == "/run/amd-container-toolkit"


def test_root_is_root_whatever_its_environment_says(monkeypatch, tmp_path):
    monkeypatch.setattr(rootless, "_read_uid_map", lambda: IDENTITY)
    monkeypatch.setattr("posix.geteuid", lambda: 0)

    assert find_user_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == ""


def test_a_simulated_host_is_served_alike_to_everybody(monkeypatch, tmp_path):
    monkeypatch.setattr(rootless, "_read_uid_map", lambda: ROOTLESS)

    state = open_state(Host(tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path)})

    assert state.run_directory == f"{tmp_path}/run/amd-container-toolkit"
