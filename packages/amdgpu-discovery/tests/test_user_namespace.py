"""Which nodes the users of a container with a user namespace cannot open."""

from __future__ import annotations

import pytest

from amdgpu_discovery.driver.device_nodes import closed_nodes, closed_nodes_note
from amdgpu_discovery.gpu import DeviceNode
from amdgpu_discovery.host import is_user_namespace

USER_NAMESPACE = {"linux": {"namespaces": [{"type": "mount"}, {"type": "user"}]}}

outside_of_every_user_namespace = pytest.mark.skipif(is_user_namespace(), reason="these tests are in a user namespace")


def render_node(mode):
    return DeviceNode(path="/dev/dri/renderD128", major=226, minor=128, mode=mode, uid=0, gid=110)


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o662, 0o664])
def test_a_node_that_others_may_not_both_read_and_write_is_closed(mode):
    assert closed_nodes([render_node(mode)], USER_NAMESPACE) == [render_node(mode)]


def test_a_node_that_all_may_read_and_write_is_open():
    assert closed_nodes([render_node(0o666)], USER_NAMESPACE) == []


@outside_of_every_user_namespace
@pytest.mark.parametrize(
    "spec", [{}, {"linux": None}, {"linux": {}}, {"linux": {"namespaces": [{"type": "pid"}, "user"]}}]
)
def test_a_container_without_a_user_namespace_gets_nodes_of_its_own(spec):
    assert closed_nodes([render_node(0o660)], spec) == []


def test_the_note_names_the_closed_nodes_that_the_container_has():
    kfd = DeviceNode(path="/dev/kfd", major=235, minor=0, mode=0o660, uid=0, gid=110)
    spec = {"linux": {"devices": [{"path": "/dev/kfd"}, {}]}}

    assert closed_nodes_note([render_node(0o660), kfd], spec) == (
        "in this user namespace /dev/kfd keep the host's mode and open only to their group: use crun with"
        " '--group-add keep-groups', or a udev rule that sets MODE=\"0666\""
    )
    assert closed_nodes_note([render_node(0o660)], spec) == ""
    assert closed_nodes_note([], {"linux": {}}) == ""
