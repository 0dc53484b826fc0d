"""Minors, paths and node numbers, as drivers would give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.recording.profile import ProfileError
from amdgpu_simulator import load_profile
from amdgpu_simulator.hosts.placement import place_host
from amdgpu_simulator.random_profile import random_profile


def minors(placed):
    return [(device.card, device.render) for device in placed.devices]


def test_gpus_take_the_free_minors_in_the_order_in_which_they_are_probed():
    placed = place_host(load_profile("mi210-4"))

    assert [(node.number, node.gpu.pci_address, node.render) for node in placed.nodes] == [
        (2, "0000:63:00.0", 128),
        (3, "0000:43:00.0", 129),
        (4, "0000:03:00.0", 130),
        (5, "0000:26:00.0", 131),
    ]
    # The management controller came first and has no render node.
    assert minors(placed) == [(0, None), (1, 128), (2, 129), (3, 130), (4, 131)]


def test_before_linux_6_12_the_64th_card_is_the_last():
    placed = place_host(load_profile("mi300x-8-cpx"))

    assert minors(placed)[-1] == (63, 190)
    assert len(placed.gpus[7].devices) == 7
    assert len(placed.nodes) == 63


def test_since_linux_6_12_cards_go_on_at_192():
    placed = place_host(load_profile("mi300x-8-cpx").with_driver(shared_minors=True))

    assert minors(placed)[-1] == (192, 191)
    assert len(placed.nodes) == 64


def test_given_minors_are_not_given_to_others():
    profile = load_profile("mi210-4").with_gpu(3, minors=((1, 128),))

    assert minors(place_host(profile)) == [(0, None), (2, 129), (3, 130), (4, 131), (1, 128)]


def test_a_partition_without_a_render_node_is_none():
    profile = load_profile("mi300x-8-cpx").with_gpu(0, minors=((1, 128), (None, None), (2, 129)))

    assert [node.render for node in place_host(profile).gpus[0].nodes] == [128, 129]


def test_numbers_of_partition_devices_are_one_pool():
    profile = load_profile("mi300x-8").with_gpu(7, xcp_numbers=(3, 5))

    paths = [device.path.rpartition("/")[2] for device in place_host(profile).devices]

    assert paths[2:8] == [f"amdgpu_xcp_{number}" for number in (0, 1, 2, 4, 6, 7)]
    assert paths[-6:-4] == ["amdgpu_xcp_3", "amdgpu_xcp_5"]


def test_a_gpu_that_kfd_does_not_list_keeps_its_render_node():
    placed = place_host(load_profile("mi210-4").with_gpu(1, partitions=0))

    assert [node.number for node in placed.nodes] == [2, 3, 4]
    assert minors(placed)[2] == (2, 129)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pci_address": "03:00.0"}, "'03:00.0' is not a PCI address"),
        ({"pci_address": "0000:26:00.0"}, "two devices of the profile are at 0000:26:00.0"),
        ({"minors": ((1, 128), (1, 129))}, "two nodes of the profile have DRM minor 1"),
        ({"xcp_numbers": (0, 0)}, "two partition devices of the profile have the same number"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(change, sentence):
    with pytest.raises(ProfileError) as caught:
        place_host(load_profile("mi210-4").with_gpu(0, **change))

    assert caught.value.message == sentence


@given(st.randoms(use_true_random=False))
def test_no_two_things_of_a_host_have_the_same_number(random):
    placed = place_host(random_profile(random))

    taken = [minor for pair in minors(placed) for minor in pair if minor is not None]
    assert len(set(taken)) == len(taken)
    for values in (
        [d.path for d in placed.devices],
        [n.gpu_id for n in placed.nodes],
        [n.number for n in placed.nodes],
    ):
        assert len(set(values)) == len(values)
