"""Whose rootless containers are looked at: the caller's, behind sudo too."""

from __future__ import annotations

import os
import pwd

import pytest

from amd_ctk.doctor.facts.users import find_user

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
def test_what_is_no_user_behind_sudo_is_root(called_by, told):
    assert called_by(0, SUDO_UID=told) is None


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


def test_a_user_without_a_name_is_nobody(called_by):
    assert called_by(123456789) is None
