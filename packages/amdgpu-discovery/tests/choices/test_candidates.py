"""Which GPUs are what a choice wants, on simulated hosts."""

from __future__ import annotations

import pytest

from amdgpu_discovery.choices.candidates import find_candidates
from amdgpu_discovery.choices.grammar import parse_choice
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_simulator import build_host

ALL = [0, 1, 2, 3, 4, 5, 6, 7]
GROUPS = ChoiceRules(groups={"notebooks": "6-7", "broken": "6-9"})


@pytest.fixture(scope="module")
def gpus_of(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hosts")
    found = {}

    def find(profile):
        if profile not in found:
            found[profile] = find_gpus(build_host(directory / profile, profile, bare=True))
        return found[profile]

    return find


def numbers(gpus, request, rules=NO_RULES):
    return [gpu.number for gpu in find_candidates(parse_choice(request), gpus, rules)]


@pytest.mark.parametrize(
    ("profile", "request_text", "fitting"),
    [
        ("mi210-8", "auto:2", ALL),
        ("mi210-8", "auto:2+gfx90a", ALL),
        ("mi210-8", "auto:2+gfx90X", ALL),
        ("mi210-8", "auto:2+mi210", ALL),
        ("mi210-8", "auto:2+numa:1", [4, 5, 6, 7]),
        ("mi210-8", "auto:4+xgmi", ALL),
        ("mi210-8", "all+numa:0+xgmi", [0, 1, 2, 3]),
        # The driver says 65520 MiB of the 64 GiB for which the GPU is sold.
        ("mi210-8", "auto:1+vram:64GiB", ALL),
        ("mi210-8", "auto:1+vram:65520MiB", ALL),
        ("mi210-8", "auto:1+spx", ALL),
        ("mi300a-4", "all+integrated", [0, 1, 2, 3]),
        ("mi300a-4", "all+MI300A+gfx94X", [0, 1, 2, 3]),
        ("mi300x-8-cpx", "auto:8+cpx+vram:24GiB", list(range(63))),
        ("rx7900xtx-raphael", "all+discrete", [0]),
        ("rx7900xtx-raphael", "all+integrated", [1]),
        ("rx7900xtx-raphael", "auto:1+gfx110X", [0]),
        ("rx7900xtx-raphael", "auto:1", [0, 1]),
    ],
)
def test_conditions_are_met_by_what_the_driver_says(gpus_of, profile, request_text, fitting):
    assert numbers(gpus_of(profile), request_text) == fitting


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("auto:9", "auto:9: this host has 8 GPUs"),
        ("free:5+numa:0", "free:5+numa:0: 4 of 8 GPUs fit"),
        ("free:5+xgmi", "free:5+xgmi: the largest XGMI hive has 4 GPUs that fit"),
        ("auto:1+gfx942", "auto:1+gfx942: no GPU of this host fits gfx942 ('amd-ctk gpu list' shows them)"),
        ("auto:1+vram:65GiB", "auto:1+vram:65GiB: no GPU of this host fits vram:65GiB ('amd-ctk gpu list' shows them)"),
        (
            "auto:1+vram:65521MiB",
            "auto:1+vram:65521MiB: no GPU of this host fits vram:65521MiB ('amd-ctk gpu list' shows them)",
        ),
        ("all+integrated", "all+integrated: no GPU of this host fits integrated ('amd-ctk gpu list' shows them)"),
        ("auto:1+cpx", "auto:1+cpx: no GPU of this host fits cpx ('amd-ctk gpu list' shows them)"),
        (
            "auto:1+numa:0+numa:1",
            "auto:1+numa:0+numa:1: no GPU of this host fits all of numa:0, numa:1 ('amd-ctk gpu list' shows them)",
        ),
        ("auto:1+group:x", "there is no group 'x' (gpu-groups of the configuration has broken, notebooks)"),
        (
            "auto:1+group:broken",
            "group:broken: GPUs 8-9 do not exist, this host has GPUs 0-7 ('amd-ctk gpu list' shows them)",
        ),
        ("auto:3+group:notebooks", "auto:3+group:notebooks: 2 of 8 GPUs fit"),
    ],
)
def test_a_choice_that_this_host_can_never_meet_is_refused(gpus_of, request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        numbers(gpus_of("mi210-8"), request_text, GROUPS)

    assert str(refusal.value) == sentence


def test_a_group_is_a_condition_like_others(gpus_of):
    assert numbers(gpus_of("mi210-8"), "auto:1+group:notebooks", GROUPS) == [6, 7]


def test_without_groups_the_refusal_says_where_they_are_set(gpus_of):
    with pytest.raises(RequestError) as refusal:
        numbers(gpus_of("mi210-8"), "auto:1+group:x")

    assert str(refusal.value) == "there is no group 'x' (gpu-groups sets groups)"


@pytest.mark.parametrize(
    ("profile", "request_text", "fitting"),
    [
        ("rx7900xtx-raphael", "auto:1", [0]),
        ("rx7900xtx-raphael", "all+gfx110X", [0]),
        ("rx7900xtx-raphael", "auto:1+integrated", [1]),
        # There is no discrete GPU that it would stand beside.
        ("strix-halo", "auto:1", [0]),
        ("mi300a-4", "auto:4", [0, 1, 2, 3]),
    ],
)
def test_an_integrated_gpu_can_be_kept_out_of_choices(gpus_of, profile, request_text, fitting):
    assert numbers(gpus_of(profile), request_text, ChoiceRules(groups={}, integrated=False)) == fitting


def test_a_gpu_that_is_kept_out_is_not_counted(gpus_of):
    with pytest.raises(RequestError) as refusal:
        numbers(gpus_of("rx7900xtx-raphael"), "auto:2", ChoiceRules(groups={}, integrated=False))

    assert str(refusal.value) == "auto:2: 1 of 2 GPUs fits"


def test_a_host_without_gpus_can_meet_no_choice():
    with pytest.raises(RequestError) as refusal:
        find_candidates(parse_choice("auto:1"), [])

    assert str(refusal.value) == "this host has no AMD GPU that can compute ('amd-ctk gpu list' shows them)"
