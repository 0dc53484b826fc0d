"""The nodes a container needs: numbers from sysfs, access from /dev, or a clear sentence."""

from __future__ import annotations

import os

import pytest

from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_discovery.errors import DeviceNodeError
from amdgpu_discovery.numbering import locate_gpus


def test_each_gpu_brings_its_card_and_render_node_and_all_share_kfd(simulated):
    host = simulated("mi210-4")
    group = os.stat(host.path("/dev/kfd")).st_gid
    cards = os.stat(host.path("/dev/dri/card3")).st_gid
    owner = os.stat(host.path("/dev/kfd")).st_uid

    nodes = find_device_nodes(host, locate_gpus(host)[:2])

    assert [(node.path, node.major, node.minor, node.mode, node.uid, node.gid) for node in nodes] == [
        ("/dev/dri/card3", 226, 3, 0o660, owner, cards),
        ("/dev/dri/renderD130", 226, 130, 0o660, owner, group),
        ("/dev/dri/card4", 226, 4, 0o660, owner, cards),
        ("/dev/dri/renderD131", 226, 131, 0o660, owner, group),
        ("/dev/kfd", 510, 0, 0o660, owner, group),
    ]


def test_a_node_has_the_mode_that_it_has_in_dev(simulated):
    host = simulated("one-gpu")
    os.chmod(host.path("/dev/dri/renderD128"), 0o664)

    assert [node.mode for node in find_device_nodes(host, locate_gpus(host))] == [0o660, 0o664, 0o660]


def test_no_gpu_needs_no_node(simulated):
    assert find_device_nodes(simulated("mi210-4"), []) == []


def test_a_card_that_is_not_in_dev_is_left_out(simulated):
    host = simulated("one-gpu")
    os.unlink(host.path("/dev/dri/card0"))

    assert [node.path for node in find_device_nodes(host, locate_gpus(host))] == ["/dev/dri/renderD128", "/dev/kfd"]


@pytest.mark.parametrize(("path", "subsystem"), [("/dev/kfd", "kfd"), ("/dev/dri/renderD128", "drm")])
def test_a_missing_node_is_named_with_what_makes_it(simulated, path, subsystem):
    host = simulated("one-gpu")
    os.unlink(host.path(path))

    with pytest.raises(DeviceNodeError) as refusal:
        find_device_nodes(host, locate_gpus(host))

    assert str(refusal.value) == (
        f"{path} is missing although the driver has this device"
        f" (udev makes it: 'sudo udevadm trigger --action=add --subsystem-match={subsystem}')"
    )


def test_a_missing_render_node_is_reported_before_a_missing_number_of_kfd(simulated):
    host = simulated("one-gpu")
    os.unlink(host.path("/dev/dri/renderD128"))
    os.unlink(host.path("/sys/class/kfd/kfd/dev"))

    with pytest.raises(DeviceNodeError, match="/dev/dri/renderD128 is missing"):
        find_device_nodes(host, locate_gpus(host))


@pytest.mark.parametrize("content", [None, "", "0:0\n", "226\n", "226:x\n"])
def test_kfd_without_a_number_is_an_error_and_never_0_0(simulated, content):
    host = simulated("one-gpu")
    path = host.path("/sys/class/kfd/kfd/dev")
    with open(path, "w", encoding="ascii") as file:
        file.write(content or "")
    if content is None:
        os.unlink(path)

    with pytest.raises(DeviceNodeError) as refusal:
        find_device_nodes(host, locate_gpus(host))

    assert refusal.value.message == (
        "the kernel gives no device number for /dev/kfd: /sys/class/kfd/kfd/dev is missing or unreadable"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
@pytest.mark.parametrize(
    ("path", "left_over", "driver"),
    [
        ("/dev/kfd", (234, 0), "235:0"),
        ("/dev/dri/renderD128", (226, 129), "226:128"),
        ("/dev/dri/card0", (29, 0), "226:0"),
    ],
)
def test_a_node_of_an_earlier_boot_is_refused(simulated, path, left_over, driver):
    host = simulated("one-gpu")
    os.unlink(host.path(path))
    os.mknod(host.path(path), 0o20660, os.makedev(*left_over))

    with pytest.raises(DeviceNodeError) as refusal:
        find_device_nodes(host, locate_gpus(host))

    assert str(refusal.value) == (
        f"{path} is device {left_over[0]}:{left_over[1]}, but the driver's is {driver}"
        " (it is left over from an earlier boot; remove it and run 'sudo udevadm trigger')"
    )
