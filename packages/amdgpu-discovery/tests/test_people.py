"""Who became root by sudo: one answer for what is drained, reserved and looked at."""

from __future__ import annotations

import os

import pytest

from amdgpu_discovery.people import behind_sudo, person_behind


@pytest.mark.parametrize(
    ("told", "uid"),
    [
        *[("1000", 1000), ("0", 0), ("1234567890", 1234567890), ("4294967294", 4294967294)],
        *[("4294967295", None), ("9" * 5000, None), ("-1", None), ("x", None), ("\u0661", None), ("", None)],
    ],
)
def test_sudo_says_who_became_root(monkeypatch, told, uid):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert behind_sudo({"SUDO_UID": told}) == uid


def test_a_user_is_not_believed_to_be_another(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert behind_sudo({"SUDO_UID": "0"}) is None


@pytest.mark.parametrize(
    ("uid", "login", "sudo", "person"),
    [
        *[(1000, None, None, 1000), (1000, 1005, None, 1000)],
        *[(0, None, None, None), (0, 0, None, None), (0, None, 0, 0)],
        *[(0, None, 1001, 1001), (0, 0, 1001, 1001), (0, 1005, None, 1005), (0, 1005, 1001, 1005)],
    ],
)
def test_the_login_names_the_person_behind_root_before_sudo_does(uid, login, sudo, person):
    assert person_behind(uid, login=login, sudo=sudo) == person
