"""A tracked GPU that the host has lost, in the words of the commands."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from support.enabled_tracker import enable

RULE = "-" * 120


@pytest.fixture
def made(host):
    """Return four MI210 with the tracker enabled."""
    made = host()
    enable(made)
    return made


@pytest.fixture
def lose(made, tmp_path):
    """Return a function that takes a GPU off the bus, and what puts it back."""

    def take(number):
        gpu = locate_gpus(made)[number]
        paths = [
            f"/sys/class/kfd/kfd/topology/nodes/{gpu.kfd_node}",
            f"/sys/module/amdgpu/drivers/pci:amdgpu/{gpu.pci_address}",
            f"/sys/bus/pci/devices/{gpu.pci_address}",
        ]
        for place, path in enumerate(paths):
            os.rename(made.path(path), tmp_path / f"{number}-{place}")

    return take


def devices(made):
    """Return the render node behind each number of the CDI spec."""
    spec = json.loads(Path(made.path("/etc/cdi/amd.json")).read_text())
    paths = {each["name"]: [node["path"] for node in each["containerEdits"]["deviceNodes"]] for each in spec["devices"]}
    return {name: next(path for path in paths[name] if "render" in path) for name in paths if name.isdecimal()}


def test_the_table_has_a_row_for_a_lost_gpu(made, lose, amd_ctk):
    amd_ctk("gpu-tracker", "1", "exclusive")
    lose(1)

    answer = amd_ctk("gpu-tracker", "status")

    assert answer.stdout.splitlines() == [
        RULE,
        "GPU Id    UUID                     Accessibility       Container Ids",
        RULE,
        "0         0xEA35F57CC80DEB35       Shared              -",
        "1         0x89CAA15875FF5A43       Lost (exclusive)    -",
        "1 was 2   0x6E32F10EFC982B4C       Shared              -",
        "2 was 3   0x12FE4F7FDAF06B9        Shared              -",
    ]
    assert answer.stderr.splitlines() == [
        "GPU 1 is lost: PCI 0000:26:00.0 left the bus; 'sudo amd-ctk gpu-tracker forget 1' forgets it",
        "numbers from 1 on have changed since GPUs were tracked, so requests by them are refused",
    ]


def test_no_two_rows_have_the_same_number(made, lose, amd_ctk):
    lose(1)

    rows = [re.split("  +", line)[:3] for line in amd_ctk("status").stdout.splitlines()[3:7]]

    assert rows == [
        ["0", "MI210", "free"],
        ["1", "-", "lost"],
        ["1 was 2", "MI210", "free"],
        ["2 was 3", "MI210", "free"],
    ]


def test_since_when_it_is_lost_is_known_once_something_started(made, lose, amd_ctk):
    lose(1)
    Tracker(made).reserve("0", name="job")

    first = amd_ctk("gpu-tracker", "status").stderr.splitlines()[0]

    assert re.fullmatch(r"GPU 1 is lost since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: PCI 0000:26:00.0 left the bus; .*", first)


def test_commands_for_the_others_go_on(made, lose, amd_ctk):
    lose(1)

    assert amd_ctk("gpu-tracker", "0", "exclusive").stdout == "GPUs [0] have been made exclusive\n"
    refused = amd_ctk("gpu-tracker", "2", "exclusive")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "GPU 2 now has number 1 (name GPUs by UUID as 'amd-ctk gpu list' shows them, or accept the new numbers with"
        " 'sudo amd-ctk gpu-tracker forget 1')\n"
    )
    for words in (["status", "--wide"], ["all", "exclusive"]):
        assert amd_ctk("gpu-tracker", *words).returncode == 0


def test_forgetting_says_what_has_become_of_the_numbers(made, lose, amd_ctk):
    Tracker(made).reserve("1-2", name="job", pid=1)
    lose(1)

    answer = amd_ctk("gpu-tracker", "forget", "1")

    assert answer.stdout == ("GPU 1 (PCI 0000:26:00.0) is forgotten\nGPU 2 now has number 1\nGPU 3 now has number 2\n")
    assert answer.stderr == "job job had it, and still runs: it keeps its other GPUs\n"
    assert amd_ctk("gpu-tracker", "2", "exclusive").stdout == "GPUs [2] have been made exclusive\n"


def test_a_gpu_that_is_there_is_not_forgotten(made, lose, amd_ctk):
    lose(1)

    answer = amd_ctk("gpu-tracker", "forget", "1-2")

    assert (answer.returncode, answer.stdout, answer.stderr) == (
        11,
        "",
        "1-2: not all of these GPUs are lost ('amd-ctk gpu-tracker status' shows which GPU is lost)\n",
    )


@pytest.mark.parametrize("words", [[], ["--gpus", "0-3"]])
def test_names_of_cdi_devices_mean_the_same_gpus_until_it_is_forgotten(made, lose, amd_ctk, words):
    amd_ctk("cdi", "generate", *words)
    before = devices(made)
    lose(1)

    assert amd_ctk("cdi", "refresh").returncode == 0
    assert devices(made) == {number: path for number, path in before.items() if number != "1"}
    assert "amd.com/gpu=1\n" not in amd_ctk("cdi", "list").stdout
    assert amd_ctk("cdi", "validate").stdout.endswith("CDI spec is valid\n")

    amd_ctk("gpu-tracker", "forget", "1")
    if not words:
        assert devices(made) == {"0": before["0"], "1": before["2"], "2": before["3"]}


def test_a_reset_names_who_keeps_what(made, amd_ctk):
    Tracker(made).reserve("2", name="job")

    assert amd_ctk("gpu-tracker", "reset").stderr == "job job is running and uses GPUs [2]\n"
    assert amd_ctk("gpu-tracker", "reset", "--force").stderr == (
        "job job is running, and its reservation of GPUs [2] is forgotten\n"
    )


def test_lists_have_lost_and_drained_gpus(made, lose, amd_ctk):
    amd_ctk("gpu-tracker", "drain", "3", "--reason=fan swap")
    lose(1)

    listed = json.loads(amd_ctk("gpu", "list", "--json").stdout)
    wide = amd_ctk("gpu", "list", "--wide")

    assert [(gpu["state"], gpu["state_reason"]) for gpu in listed["gpus"]] == [
        ("free", None),
        ("free", None),
        ("drained", "fan swap"),
    ]
    assert [(gpu["number"], gpu["uuid"], gpu["pci_address"]) for gpu in listed["lost"]] == [
        (1, "0x89CAA15875FF5A43", "0000:26:00.0")
    ]
    assert wide.stderr.splitlines()[0] == "GPU 2 at 0000:63:00.0 is drained: fan swap"
    assert wide.stderr.splitlines()[1].startswith("GPU 1 is lost: ")


def test_swarm_is_not_offered_a_drained_gpu_and_status_says_what_is_offered_in_vain(made, amd_ctk):
    setup = ("swarm", "setup", "--no-validate")
    amd_ctk(*setup)
    amd_ctk("gpu-tracker", "drain", "3", "--reason=fan swap")

    said = amd_ctk("swarm", "status").stderr
    amd_ctk(*setup)
    offered = json.loads(Path(made.path("/etc/docker/daemon.json")).read_text())["node-generic-resources"]

    hint = "(run 'sudo amd-ctk swarm setup' again)"
    sentence = f"GPU 3 is drained and advertised, so tasks that get it are refused {hint}"
    assert sentence in said.splitlines()
    assert offered == [f"AMD_GPU={uuid}" for uuid in ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C")]
    assert sentence not in amd_ctk("swarm", "status").stderr


def test_a_node_whose_gpus_are_all_drained_offers_nothing(made, amd_ctk):
    amd_ctk("gpu-tracker", "drain", "all")

    answer = amd_ctk("swarm", "setup", "--no-validate")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert "all GPUs of this host are drained" in answer.stderr


def test_status_says_what_is_drained_beside_the_table(made, amd_ctk):
    plain = amd_ctk("gpu-tracker", "status").stdout
    amd_ctk("gpu-tracker", "drain", "3", "--reason=fan swap")

    answer = amd_ctk("gpu-tracker", "status")
    listed = json.loads(amd_ctk("gpu-tracker", "status", "--json").stdout)["gpus"]

    assert (answer.stdout, answer.stderr) == (plain, "GPU 3 is drained: fan swap\n")
    assert [gpu["drained"] for gpu in listed] == [None, None, None, "fan swap"]


def test_a_spec_that_names_a_lost_gpu_is_compared_with_those_that_are_left(made, lose, amd_ctk):
    amd_ctk("cdi", "generate", "--gpus=0-3")
    lose(1)

    answer = amd_ctk("cdi", "validate")

    assert (answer.returncode, answer.stderr) == (1, "")
    assert "the spec offers 4 GPUs, but this machine has 3 GPUs\n" in answer.stdout


def test_explain_says_that_a_node_of_an_old_cdi_spec_leads_nowhere(made, lose, amd_ctk):
    amd_ctk("cdi", "generate")
    node = devices(made)["3"]
    lose(3)
    os.unlink(made.path(node))

    answer = amd_ctk("explain", "--", "podman", "run", "--device", "amd.com/gpu=3", "--device", "amd.com/gpu=0", "rocm")
    alone = amd_ctk("explain", "--", "podman", "run", "--device", "amd.com/gpu=3", "rocm")

    problem = (
        f"problem: {node} leads nowhere, because its GPU is gone: write a new CDI spec with 'sudo amd-ctk cdi generate'"
    )
    assert (answer.returncode, alone.returncode) == (0, 1)
    assert problem in answer.stdout.splitlines()
    assert alone.stdout.splitlines() == [
        "The container gets no GPU",
        "config.json is not changed",
        problem,
        "note: the environment of the image rocm is not known here",
    ]

    amd_ctk("cdi", "generate")

    assert "problem" not in amd_ctk("explain", "--", "podman", "run", "--device", "amd.com/gpu=all", "rocm").stdout


def test_sentences_about_a_gpu_with_another_number_name_its_address_and_advice_works(lose, amd_ctk):
    lose(1)
    assert amd_ctk("gpu-tracker", "drain", "0000:43:00.0", "--reason=fan").returncode == 0
    words = "GPU 1 at 0000:43:00.0 is drained: fan"

    examined = amd_ctk("doctor", "--only=gpu-drained").stdout

    assert f"{words}\n" in amd_ctk("status").stdout
    assert f"{words}\n" in amd_ctk("gpu-tracker", "status").stderr + amd_ctk("gpu-tracker", "status").stdout
    assert words in examined
    assert "sudo amd-ctk gpu-tracker undrain 0000:43:00.0" in examined
    assert amd_ctk("gpu-tracker", "undrain", "0000:43:00.0").returncode == 0


@pytest.mark.parametrize("words", [("check",), ("clean",), ("clean", "--reset")])
def test_a_gpu_is_not_cleaned_or_reset_by_a_number_that_was_another_ones(lose, amd_ctk, words):
    lose(1)

    answer = amd_ctk("gpu", words[0], "2", *words[1:])

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("GPU 2 now has number 1 (name GPUs by UUID")


def test_check_names_the_address_of_a_gpu_with_another_number(lose, amd_ctk):
    lose(1)

    answer = amd_ctk("gpu", "check")

    assert answer.stdout == "GPU 0 is clean\nGPU 1 at 0000:43:00.0 is clean\nGPU 2 at 0000:63:00.0 is clean\n"
    assert amd_ctk("gpu", "check", "0000:43:00.0").stdout == "GPU 1 at 0000:43:00.0 is clean\n"


def test_explain_names_the_address_of_a_sick_gpu(made, lose, amd_ctk):
    lose(1)
    ras = Path(made.path("/sys/bus/pci/devices/0000:63:00.0/ras"))
    ras.mkdir(exist_ok=True)
    (ras / "umc_err_count").write_text("ue: 3\nce: 0\n")

    explained = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=all").stdout

    assert "note: GPU 2 at 0000:63:00.0 is suspect: 3 uncorrectable errors" in explained
