"""`amd-ctk status` has the options that were added to AMD's `gpu-tracker status`."""

from __future__ import annotations

import re

import pytest

from amd_gpu_tracker import GpusRefused, Tracker


@pytest.fixture
def refused(host):
    """Return a host with a reservation, and one that was refused."""
    tracker = Tracker(host())
    tracker.enable()
    tracker.set_accessibility("2", exclusive=True)
    tracker.reserve("2", name="nightly-job")
    with pytest.raises(GpusRefused):
        tracker.reserve("2", name="other-job")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--usage", ("status", "--usage")),
        ("--peak", ("status", "--peak")),
        ("--refusals", ("gpu-tracker", "refused")),
        ("--prometheus", ("gpu", "metrics")),
    ],
)
def test_an_option_of_gpu_tracker_status_works_on_and_names_its_successor(refused, amd_ctk, option, words):
    now, before = amd_ctk(*words), amd_ctk("gpu-tracker", "status", option)

    assert (now.returncode, before.returncode) == (0, 0)
    said = f"'amd-ctk {' '.join(words)}' replaces {option} here, which a later version will drop\n"
    assert before.stderr == f"{said}{now.stderr}"
    assert [line.split() for line in before.stdout.splitlines()] == [line.split() for line in now.stdout.splitlines()]
    assert ("other-job" if option == "--refusals" else "nightly-job") in now.stdout


@pytest.mark.parametrize(
    ("option", "words"),
    [("--refusals", ["gpu-tracker", "refused"]), ("--prometheus", ["gpu", "metrics"]), ("--html", ["gpu", "page"])],
)
def test_an_earlier_option_of_status_works_on_is_hidden_and_names_its_successor_once(refused, amd_ctk, option, words):
    now, before = amd_ctk(*words), amd_ctk("status", option)

    assert (now.returncode, before.returncode) == (0, 0)
    said = f"'amd-ctk status {option}' still works; 'amd-ctk {' '.join(words)}' replaces it\n"
    assert before.stderr == f"{said}{now.stderr}"
    assert before.stdout.splitlines()[0] == now.stdout.splitlines()[0]
    assert option not in amd_ctk("status", "--help").stdout


def test_status_has_at_most_five_options(host, amd_ctk):
    host()

    shown = amd_ctk("status", "--help").stdout

    assert re.findall(r"^  (?:-., )?(--[a-z-]+)", shown, re.MULTILINE) == [
        "--json",
        "--usage",
        "--peak",
        "--watch",
        "--no-trunc",
        "--help",
    ]


def test_amds_own_status_says_nothing(refused, amd_ctk):
    assert amd_ctk("gpu-tracker", "status").stderr == ""
    assert amd_ctk("gpu-tracker", "status", "--wide").stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--refusals", "--usage"], "--refusals and --usage exclude each other (leave out one of them)\n"),
        (["--watch"], "--watch needs --usage or --peak ('amd-ctk top' shows the states live)\n"),
        (["--no-trunc"], "--no-trunc needs --usage or --peak ('amd-ctk top' shows the states live)\n"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(host, amd_ctk, words, said):
    host()

    answer = amd_ctk("status", *words)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == said
