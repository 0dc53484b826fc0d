"""Whose rootless containers are looked at: the caller's, behind sudo too."""

from __future__ import annotations

import os
import pwd

import pytest

from amd_ctk.doctor.facts.users import find_session_groups, find_user

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def called_by(monkeypatch):
    """Return a function that finds the user of a call by a process with this user id, and what sudo says."""

    def find(uid, **environment):
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        for name in ("SUDO_UID", "XDG_RUNTIME_DIR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return find_user()

    return find


def test_root_has_no_rootless_containers(called_by):
    assert called_by(0) is None


@pytest.mark.parametrize("told", ["0", "x", "-1", "4294967296", "9" * 5000, "123456789"])
def test_an_invalid_user_behind_sudo_counts_as_root(called_by, told):
    assert called_by(0, SUDO_UID=told) is None


def test_the_groups_of_a_session_are_those_of_the_process_and_not_of_the_database(called_by, monkeypatch):
    monkeypatch.setattr(os, "getgroups", lambda: [7, 8])
    monkeypatch.setattr(os, "getegid", lambda: 6)

    assert called_by(NOBODY.pw_uid).session_groups == (6, 7, 8)


@pytest.mark.parametrize(("uid", "groups"), [(1000, (1000, 44, 992)), (1001, None)])
def test_behind_sudo_the_session_is_that_of_the_nearest_process_of_the_user(tmp_path, uid, groups):
    for pid, parent, owner, listed in ((30, 20, 0, "0"), (20, 10, 1000, "44 992"), (10, 1, 1000, ""), (1, 0, 0, "")):
        (tmp_path / str(pid)).mkdir()
        ids = f"{owner}\t{owner}\t{owner}\t{owner}"
        (tmp_path / f"{pid}/status").write_text(
            f"Name:\tx\nPPid:\t{parent}\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t{listed} \n"
        )

    assert find_session_groups(uid, 30, str(tmp_path)) == groups


def test_the_user_behind_sudo_counts(called_by):
    user = called_by(0, SUDO_UID=str(NOBODY.pw_uid), XDG_RUNTIME_DIR="/run/user/0")

    assert (user.name, user.uid, user.home) == ("nobody", NOBODY.pw_uid, NOBODY.pw_dir)
    assert user.runtime_directory == f"/run/user/{NOBODY.pw_uid}"
    assert NOBODY.pw_gid in user.groups


def test_a_user_of_a_directory_has_a_number_of_ten_digits(called_by, monkeypatch):
    entry = pwd.struct_passwd(("carol", "x", 1234567890, NOBODY.pw_gid, "", "/home/carol", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {1234567890: entry}.__getitem__)

    assert called_by(0, SUDO_UID="1234567890").name == "carol"


def test_a_user_who_calls_has_a_runtime_directory_of_choice(called_by):
    assert called_by(NOBODY.pw_uid, XDG_RUNTIME_DIR="/tmp/run").runtime_directory == "/tmp/run"


def test_a_user_who_calls_has_settings_of_choice(called_by, monkeypatch):
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    assert called_by(NOBODY.pw_uid).settings == f"{NOBODY.pw_dir}/.config"
    assert called_by(NOBODY.pw_uid, HOME="/scratch/n").settings == "/scratch/n/.config"
    assert called_by(NOBODY.pw_uid).data == "/scratch/n/.local/share"
    chosen = called_by(NOBODY.pw_uid, XDG_CONFIG_HOME="/settings", XDG_DATA_HOME="/data")
    assert (chosen.settings, chosen.data) == ("/settings", "/data")
    assert called_by(0, SUDO_UID=str(NOBODY.pw_uid), XDG_CONFIG_HOME="/root/x").settings == f"{NOBODY.pw_dir}/.config"


def test_a_user_without_a_name_is_nobody(called_by):
    assert called_by(123456789) is None
