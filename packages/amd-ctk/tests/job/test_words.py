"""The words of a command that is run with GPUs."""

from __future__ import annotations

import pytest

from amd_ctk.job.service import got
from amd_ctk.job.words import default_name, in_unit, not_told, with_token

TOKEN = "-e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION"


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        ("docker run --rm image", f"docker run {TOKEN} --rm image"),
        ("docker create image", f"docker create {TOKEN} image"),
        ("docker container run image", f"docker container run {TOKEN} image"),
        ("/usr/bin/podman run image run", f"/usr/bin/podman run {TOKEN} image run"),
        ("docker -H unix:///run/d.sock -D run image", f"docker -H unix:///run/d.sock -D run {TOKEN} image"),
        ("docker --context run run image", f"docker --context run run {TOKEN} image"),
        ("docker --context=lab run image", f"docker --context=lab run {TOKEN} image"),
        ("podman --root /a --storage-opt run run image", f"podman --root /a --storage-opt run run {TOKEN} image"),
        ("podman --log-level debug create image", f"podman --log-level debug create {TOKEN} image"),
        ("env X=1 docker run image", f"env X=1 docker run {TOKEN} image"),
        ("sudo -E docker run image", f"sudo -E docker run {TOKEN} image"),
        ("sudo docker run image", "sudo docker run image"),
        ("docker compose run web", "docker compose run web"),
        ("docker exec web run", "docker exec web run"),
        ("docker", "docker"),
        ("docker --host", "docker --host"),
        ("python3 run create", "python3 run create"),
        ("sh -c docker", "sh -c docker"),
    ],
)
def test_engines_are_told_what_to_pass_on(words, passed_on):
    assert with_token(words.split()) == passed_on.split()


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (["env", "-i", "docker", "run", "image"], "docker run"),
        (["sudo", "/usr/bin/podman", "--root", "/a", "create", "image"], "podman create"),
        (["sh", "-c", "cd /a && exec docker run image"], "docker run"),
        (["time", "docker", "exec", "web", "docker", "run", "image"], "docker run"),
    ],
)
def test_an_engine_behind_another_word_is_not_told(words, engine):
    assert not_told(words) == (
        f"'{engine}' is not the first word of the command, so its container is not given the GPUs"
        f" (write '{engine} {TOKEN}')"
    )


@pytest.mark.parametrize(
    "words",
    [
        "docker run image sh -c docker run image",
        f"env X=1 docker run {TOKEN} image",
        "sudo docker compose up",
        "grep docker run.log",
        "docker",
        "",
    ],
)
def test_other_commands_are_not_warned_of(words):
    assert not_told(words.split(" ")) == ""


def test_many_words_are_looked_through_at_once():
    assert not_told(["rm", *["docker run.log"] * 100_000]) == ""


def test_a_unit_has_the_properties_that_close_other_gpus():
    words = in_unit(["sh", "-c", "exit 3"], ["DevicePolicy=closed", "DeviceAllow=/dev/kfd rw"])

    assert " ".join(words) == (
        "systemd-run --scope --quiet --collect -p DevicePolicy=closed -p DeviceAllow=/dev/kfd rw -- sh -c exit 3"
    )


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/usr/bin/python3.11", "python3-11-7"),
        ("--", "job-7"),
        ("ä\n", "job-7"),
        ("x" * 99, f"{'x' * 40}-7"),
        ("", "job-7"),
    ],
)
def test_a_job_is_called_after_its_program(program, name):
    assert default_name([program], {}, 7) == name


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"AMD_CTK_JOB_NAME": "nightly", "JUPYTERHUB_USER": "alice", "SLURM_JOB_NAME": "train"}, "nightly-7"),
        ({"JUPYTERHUB_USER": "alice", "SLURM_JOB_NAME": "train"}, "jupyter-alice-7"),
        ({"SLURM_JOB_NAME": "train"}, "train-7"),
        ({"AMD_CTK_JOB_NAME": "", "SLURM_JOB_NAME": "My job!"}, "My-job-7"),
        ({"JUPYTERHUB_USER": "\u00e9va@lab.example"}, "jupyter--va-lab-example-7"),
        ({"AMD_CTK_JOB_NAME": "x" * 1000}, "x" * 40 + "-7"),
        ({"AMD_CTK_JOB_NAME": "!"}, "job-7"),
    ],
)
def test_a_job_is_called_as_what_started_it_says(environment, name):
    assert default_name(["/usr/bin/jupyterhub-singleuser"], environment, 7) == name


@pytest.mark.parametrize(
    ("numbers", "seconds", "said"),
    [
        ((2, 3), 252.9, "GPUs 2 and 3 after 4 min 12 s"),
        ((0,), 0.2, "GPU 0 after 0 s"),
        ((0, 1, 7), 3600 * 26 + 61, "GPUs 0, 1 and 7 after 26 h 1 min"),
        ((5,), None, "GPU 5"),
    ],
)
def test_a_job_is_told_what_it_got(numbers, seconds, said):
    assert got(numbers, seconds) == said
