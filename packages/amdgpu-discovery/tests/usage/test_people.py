"""Who became root by sudo: one answer for what is drained, reserved and looked at."""

from __future__ import annotations

import os

import pytest

from amdgpu_discovery.usage.people import NoSuchUser, behind_sudo, find_user, person_behind


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


@pytest.mark.parametrize("word", ["4294967295", "9999999999", "nobody-of-this-name"])
def test_a_number_that_no_user_can_have_is_no_user(word):
    with pytest.raises(NoSuchUser, match=f"there is no user '{word}'"):
        find_user(word)


def test_a_user_is_named_by_name_or_number():
    assert (find_user("root"), find_user("4294967294"), find_user("")) == (0, 4294967294, None)


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
