"""Requests that say what is needed, in the commands."""

from __future__ import annotations

import json

import pytest

from amd_gpu_tracker.face.tracker import Tracker


def test_explain_shows_which_gpus_would_be_chosen_now(host, amd_ctk):
    served = host("mi210-8")
    Tracker(served).enable()
    Tracker(served).reserve("0", name="web")

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=auto:2")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[0] == "AMD_VISIBLE_DEVICES=auto:2  GPUs 1 and 2, if it starts now"
    assert sorted(line.split()[0] for line in answer.stdout.splitlines()[2:4]) == ["1", "2"]
    assert [lease.containers for lease in Tracker(served).status().gpus[1:3]] == [(), ()]


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("auto:9", "auto:9: this host has 8 GPUs"),
        (
            "free:8",
            (
                "free:8: 7 of 8 GPUs are free (0 in use by web);"
                " 'amd-ctk run --gpus=free:8 --wait -- COMMAND' waits for one"
            ),
        ),
        ("auto:1,0", "'auto:1' cannot be combined with '0': name GPUs, or say how many"),
    ],
)
def test_explain_says_why_nothing_would_be_chosen(host, amd_ctk, request_text, sentence):
    served = host("mi210-8")
    Tracker(served).enable()
    Tracker(served).reserve("0", name="web")

    answer = amd_ctk("explain", "-e", f"AMD_VISIBLE_DEVICES={request_text}")

    assert answer.returncode != 0
    assert answer.stdout == (
        f"AMD_VISIBLE_DEVICES={request_text}  {sentence}\nThe container does not start:\n  {sentence}\n"
    )


def test_explain_needs_no_tracker_for_all_that_fit(host, amd_ctk):
    host("rx7900xtx-raphael")

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=all+discrete")

    assert answer.stdout.splitlines()[0] == "AMD_VISIBLE_DEVICES=all+discrete  GPU 0"


def test_query_prints_facts_about_gpus_that_fit(host, amd_ctk):
    host("mi210-8")

    answer = amd_ctk("gpu", "query", "--gpus=all+numa:1", "--format={number}")

    assert (answer.returncode, answer.stdout) == (0, "4\n5\n6\n7\n")


def test_query_does_not_ask_what_is_in_use(host, amd_ctk):
    host("mi210-8")

    answer = amd_ctk("gpu", "query", "--gpus=auto:1", "--format={number}")

    assert (answer.returncode, answer.stderr) == (
        4,
        (
            "auto:1 depends on which GPUs are in use, which does not count here"
            " (name GPUs, or write all with conditions, such as all+gfx942)\n"
        ),
    )


def test_free_neighbours_are_made_exclusive(host, amd_ctk):
    served = host("mi210-8")
    Tracker(served).enable()
    Tracker(served).reserve("0,1,2", name="web")

    answer = amd_ctk("gpu-tracker", "auto:2", "exclusive")

    assert (answer.returncode, answer.stdout) == (0, "GPUs [4 5] have been made exclusive\n")


def test_groups_are_made_exclusive(host, amd_ctk):
    served = host("mi210-8")
    Tracker(served).enable()
    amd_ctk("config", "set", "gpu-groups", "notebooks=6,7", "training=0-5")

    answer = amd_ctk("gpu-tracker", "all+group:notebooks", "exclusive")

    assert (answer.returncode, answer.stdout) == (0, "GPUs [6 7] have been made exclusive\n")


def test_groups_are_cdi_devices(host, amd_ctk, tmp_path):
    host("mi210-4")
    amd_ctk("config", "set", "gpu-groups", "notebooks=0", "training=1-3")

    assert amd_ctk("cdi", "generate").returncode == 0

    spec = json.loads((tmp_path / "host/etc/cdi/amd.json").read_text())
    devices = {device["name"]: device["containerEdits"]["deviceNodes"] for device in spec["devices"]}
    assert devices["group-notebooks"] == devices["0"]
    assert [node["path"] for node in devices["group-training"] if "render" in node["path"]] == [
        "/dev/dri/renderD131",
        "/dev/dri/renderD129",
        "/dev/dri/renderD128",
    ]
    assert amd_ctk("cdi", "validate").returncode == 0


def test_a_group_of_gpus_that_are_not_there_is_no_cdi_device(host, amd_ctk, tmp_path):
    host("mi210-4")
    amd_ctk("config", "set", "gpu-groups", "notebooks=7", "training=0")
    said = (
        "a group of the settings is not a CDI device: group:notebooks: GPU 7 does not exist, this host has GPUs 0-3"
        " ('amd-ctk gpu list' shows them)\n"
    )

    answers = [amd_ctk("cdi", "generate"), amd_ctk("cdi", "refresh")]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, said)] * 2
    spec = json.loads((tmp_path / "host/etc/cdi/amd.json").read_text())
    names = [device["name"] for device in spec["devices"]]
    assert [name for name in names if name.startswith("group")] == ["group-training"]


def test_choices_are_no_cdi_devices(host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("cdi", "generate", "--gpus=auto:2")

    assert answer.returncode != 0
    assert "auto:2 depends on which GPUs are in use, which does not count here" in answer.stderr
