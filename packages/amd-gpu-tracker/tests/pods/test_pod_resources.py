"""Which pods have which GPUs, by what kubelet says; nothing that it says can do harm."""

from __future__ import annotations

import random

import pytest

from amd_gpu_tracker.leases.pod_device import PodDevice
from amd_gpu_tracker.pods.pod_resources import parse_pods
from support.kubelet import claimed, container, field, pod


def test_devices_of_plugins_and_of_claims_have_the_names_of_their_pods():
    message = (
        pod("train-0", container("main", "0000:05:00.0", "0000:26:00.0"))
        + pod("web", container("nginx", "eth0", resource="vendor.com/nic"), namespace="default")
        + pod("lab", claimed("jupyter", "amd.com/gpu=7"))
    )

    def device(name, inside, found):
        return PodDevice(namespace="team-a", pod=name, container=inside, device=found)

    assert parse_pods(message) == [
        device("train-0", "main", "0000:05:00.0"),
        device("train-0", "main", "0000:26:00.0"),
        device("lab", "jupyter", "amd.com/gpu=7"),
    ]
    assert parse_pods(message)[0].title == "team-a/train-0"


def test_numbers_of_cores_and_unknown_fields_are_skipped():
    # cpu_ids is packed; a later version may add a number and a fixed field.
    inside = field(3, b"\x00\x01") + b"\x30\x96\x01" + b"\x39" + bytes(8) + b"\x3d" + bytes(4)

    assert [each.device for each in parse_pods(pod("train-0", inside + container("main", "3")))] == ["3"]


@pytest.mark.parametrize(
    "message", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\xff" * 11, b"\x0a" + b"\xff" * 9 + b"\x01", field(1, b"\x1a\x09a")]
)
def test_a_message_that_is_not_whole_is_refused(message):
    with pytest.raises(ValueError):  # noqa: PT011 - the caller shows whatever it says
        parse_pods(message)


def test_too_many_pods_are_refused_and_long_names_are_cut():
    with pytest.raises(ValueError, match="too many pods"):
        parse_pods(pod("p") * 5000)
    (found,) = parse_pods(pod("p" * 9000, container("c", "0")))
    assert len(found.pod) == 253


def test_random_bytes_end():
    chance = random.Random(7)
    for _ in range(3000):
        try:
            parse_pods(chance.randbytes(chance.randrange(60)))
        except ValueError:
            continue
