"""Which nodes reach each other, as the recorded hosts have it."""

from __future__ import annotations

from collections import Counter

from amdgpu_simulator.hosts.links import link_nodes
from amdgpu_simulator.hosts.placement import place_host
from amdgpu_simulator.profile_files import load_profile


def links_of(name):
    profile = load_profile(name)
    return link_nodes(profile, place_host(profile))


def count(links):
    """Return how many links there are of each type and weight."""
    return dict(Counter((link.type, link.weight) for link in links))


def test_an_mi210_reaches_its_hive_directly_and_the_other_through_processors():
    links = links_of("mi210-8")[2]

    assert count(links.direct) == {(2, 20): 1, (11, 15): 3}
    assert count(links.indirect) == {(2, 52): 1, (2, 72): 4}
    assert [link.node_to for link in links.direct] == [0, 3, 4, 5]
    assert [link.node_to for link in links.indirect] == [1, 6, 7, 8, 9]


def test_a_processor_reaches_its_own_gpus_directly():
    links = links_of("mi210-8")[1]

    assert count(links.direct) == {(1, 32): 1, (2, 20): 4}
    assert count(links.indirect) == {(2, 52): 4}


def test_a_partition_is_closer_to_those_of_its_own_package():
    links = links_of("mi300x-8-cpx")[2]

    assert count(links.direct) == {(2, 20): 1, (11, 13): 7, (11, 41): 55}
    assert count(links.indirect) == {(2, 52): 1}


def test_32_partitions_over_two_domains_are_one_hive():
    assert count(links_of("mi308x-8-cpx")[2].direct) == {(2, 20): 1, (11, 13): 3, (11, 41): 28}


def test_whole_gpus_of_a_hive_are_one_hop_apart():
    assert count(links_of("mi300x-8")[2].direct) == {(2, 20): 1, (11, 15): 7}


def test_an_mi300a_has_its_processor_on_the_package():
    links = links_of("mi300a-4")

    assert count(links[4].direct) == {(11, 13): 1, (11, 41): 3}
    assert count(links[0].direct) == {(1, 32): 3, (11, 13): 1}


def test_without_peer_to_peer_no_path_goes_through_processors():
    profile = load_profile("mi210-8").with_driver(peer_to_peer=False)

    assert [links.indirect for links in link_nodes(profile, place_host(profile))] == [()] * 10
