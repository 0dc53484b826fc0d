"""Lists of who may open a node, to the byte."""

from __future__ import annotations

import os

from amd_gpu_sharing.node_access.nodes import format_acl, parse_users, read_users, set_users
from amd_gpu_tracker.claims.closed_nodes import ACCESS_LIST

OWNER = "0100 0600 ffffffff"
GROUP_AND_OTHERS = "0400 0600 ffffffff 1000 0600 ffffffff 2000 0000 ffffffff"


def test_a_list_is_what_the_kernel_keeps() -> None:
    alice_and_bob = bytes.fromhex(f"02000000 {OWNER} 0200 0600 e9030000 0200 0600 409c0000 {GROUP_AND_OTHERS}")

    assert format_acl([40000, 1001, 1001]) == alice_and_bob
    assert parse_users(alice_and_bob) == {1001, 40000}


def test_a_list_of_another_version_or_one_that_was_cut_off_is_not_used() -> None:
    assert parse_users(b"") == frozenset()
    assert parse_users(b"\3\0\0\0" + format_acl([1001])[4:]) == frozenset()
    assert parse_users(format_acl([1001])[:19]) == frozenset()


def test_the_kernel_takes_a_list_keeps_it_and_the_mode_and_forgets_it(tmp_path) -> None:
    node = tmp_path / "node"
    node.touch()
    node.chmod(0o660)

    assert set_users(str(node), [1001]) is True
    assert os.getxattr(node, ACCESS_LIST) == format_acl([1001])
    assert set_users(str(node), [1001]) is False
    assert (read_users(str(node)), node.stat().st_mode & 0o777) == ({1001}, 0o660)

    assert set_users(str(node), []) is True
    assert (read_users(str(node)), node.stat().st_mode & 0o777) == (set(), 0o660)
    assert set_users(str(node), []) is False
