"""`amd-ctk run --detach` makes the job a unit of the user's systemd, for which a program stands in."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

LINGER = "/var/lib/systemd/linger"


@pytest.fixture
def systemd(host, amd_ctk, tmp_path):
    """Return the environment of a user whose systemd runs; what it is asked is in the file `asked`."""
    served = host()
    amd_ctk("gpu-tracker", "enable")
    program = tmp_path / "programs/systemd-run"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/asked\n. {tmp_path}/answer\n")
    program.chmod(0o755)
    (tmp_path / "answer").write_text("exit 0\n")
    manager = tmp_path / "run/systemd/private"
    manager.parent.mkdir(parents=True)
    manager.touch()
    Path(served.path(LINGER)).mkdir(parents=True)
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_a_detached_job_is_a_unit_with_its_output_in_a_file(systemd, amd_ctk, tmp_path, program):
    words = ("--count=1", "--wait=2h", "--name=night", f"--output={tmp_path}", "--detach", "--", "true", "--wait")

    answer = amd_ctk("run", *words, **systemd)

    log = tmp_path / "night.log"
    assert (answer.returncode, answer.stdout) == (0, f"night runs in the background; its output is in {log}\n")
    assert answer.stderr == "night ends when you log out ('loginctl enable-linger' lets it go on)\n"
    assert log.read_text() == ""
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:5] == [
        "--user",
        "--quiet",
        "--collect",
        "--unit=amd-ctk-night",
        f"--working-directory={os.getcwd()}",
    ]
    assert {"--setenv=PATH", "--setenv=HOME", f"--property=StandardOutput=append:{log}"} <= {*asked}
    assert asked[asked.index("--") :] == [
        *("--", program, "run", "--wait=2h", "--count=1", "--name=night", "--", "true", "--wait")
    ]


def test_a_job_of_a_user_with_lingering_starts_without_a_warning_about_logout(systemd, amd_ctk, tmp_path):
    Path(tmp_path / f"host{LINGER}/{pwd.getpwuid(os.geteuid()).pw_name}").touch()

    answer = amd_ctk("run", f"--output={tmp_path}", "--name=night", "--detach", "--", "true", **systemd)

    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("directory", ["", "/nonexistent"])
def test_without_a_manager_of_the_user_nothing_is_started(systemd, amd_ctk, tmp_path, directory):
    environment = {**systemd, "XDG_RUNTIME_DIR": directory}

    answer = amd_ctk("run", f"--output={tmp_path}", "--name=night", "--detach", "--", "true", **environment)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "--detach needs the user's own systemd, which cron and sudo do not have"
        " (log in as the user, or leave out --detach)\n"
    )
    assert not (tmp_path / "night.log").exists()


@pytest.mark.parametrize(
    ("tracker", "words", "code", "said"),
    [
        (
            "disable",
            ["--count=1", "--wait"],
            11,
            "the GPU Tracker is disabled, so no GPU can be reserved (run 'sudo amd-ctk gpu-tracker enable')\n",
        ),
        (
            "enable",
            ["--gpus=0,99"],
            4,
            "GPU 99 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)\n",
        ),
    ],
)
def test_a_job_that_would_be_refused_is_refused_before_a_unit_is_made(
    systemd, amd_ctk, tmp_path, tracker, words, code, said
):
    amd_ctk("gpu-tracker", tracker)

    answer = amd_ctk("run", *words, f"--output={tmp_path}", "--name=night", "--detach", "--", "true", **systemd)

    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", said)
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "night.log").exists()


def test_a_unit_that_systemd_refuses_is_named(systemd, amd_ctk, tmp_path):
    (tmp_path / "answer").write_text("echo 'Unit amd-ctk-night.service was already loaded.' >&2; exit 1\n")

    answer = amd_ctk("run", f"--output={tmp_path}", "--name=night", "--detach", "--", "true", **systemd)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "systemd did not start night: Unit amd-ctk-night.service was already loaded."
        " (see 'systemctl --user status amd-ctk-night')\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--each=f", "--output=d"], "--detach and --each exclude each other (leave out one of them)\n"),
        (["--at-once=2"], "--detach and --at-once exclude each other (leave out one of them)\n"),
        (["--from-line=2"], "--detach and --from-line exclude each other (leave out one of them)\n"),
        (["--unit"], "--detach and --unit exclude each other (leave out one of them)\n"),
    ],
)
def test_jobs_of_a_list_and_scopes_are_not_detached(systemd, amd_ctk, words, said):
    answer = amd_ctk("run", "--detach", *words, "--", "true", **systemd)

    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", said)


def test_a_program_that_does_not_exist_is_refused_before_a_unit_is_made(systemd, amd_ctk, tmp_path):
    answer = amd_ctk("run", "--detach", f"--output={tmp_path}", "--", "no-such-program", **systemd)

    assert (answer.returncode, answer.stdout) == (127, "")
    assert not (tmp_path / "asked").exists()
