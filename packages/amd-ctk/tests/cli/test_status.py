"""`amd-ctk status` has what AMD's `gpu-tracker status` does not show."""

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
    ("option", "command"),
    [
        ("--usage", "amd-ctk status --usage"),
        ("--peak", "sudo amd-ctk status --peak"),
        ("--refusals", "amd-ctk gpu-tracker refused"),
        ("--prometheus", "amd-ctk gpu metrics"),
    ],
)
def test_amds_status_names_the_command_that_shows_what_it_does_not_show(refused, amd_ctk, option, command):
    answer = amd_ctk("gpu-tracker", "status", option)

    assert (answer.returncode, answer.stdout) == (2, "")
    said = f"Error: there is no 'amd-ctk gpu-tracker status {option}': write '{command}'"
    assert answer.stderr.splitlines()[-1] == said


@pytest.mark.parametrize("command", ["usage", "metrics"])
def test_commands_of_amd_ctk_under_another_name_are_no_commands_of_gpu_tracker(refused, amd_ctk, command):
    answer = amd_ctk("gpu-tracker", command)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "Error: Missing arguments. Usage: gpu-tracker <gpu_ids> <operation>\n"


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
