"""amd-ctk explain of an `amd-ctk run`."""

from __future__ import annotations

import json
import os
from importlib.resources import files

import jsonschema
import pytest

from amd_gpu_tracker import Tracker

NOT_FREE = (
    "free:2: 1 of 4 GPUs is free (0-2 exclusive and in use);"
    " 'amd-ctk run --gpus=free:2 --wait -- COMMAND' waits for one"
)


@pytest.fixture
def explain(amd_ctk):
    """Return a function that explains an `amd-ctk run` of `true` with some options."""
    return lambda *options, **more: amd_ctk("explain", "--", "amd-ctk", "run", *options, "--", "true", **more)


def test_a_job_that_would_start_is_shown_with_its_gpus_and_variables(tracked, explain):
    answer = explain("--gpus=free:2", CUDA_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "The command starts now, with GPUs 0 and 1\n"
        "AMD_VISIBLE_DEVICES=0,1\n"
        "ROCR_VISIBLE_DEVICES=GPU-ea35f57cc80deb35,GPU-89caa15875ff5a43\n"
        "HIP_VISIBLE_DEVICES=0,1\n"
        "AMD_CTK_RESERVATION is set, to pass the GPUs on to a container\n"
        "CUDA_VISIBLE_DEVICES is removed\n"
    )
    assert not any(gpu.containers for gpu in Tracker(tracked).status().gpus)


def test_a_detached_job_is_explained_as_one_in_the_foreground(tracked, explain):
    detached = explain("--gpus=free:2", "--detach", "--output=logs")

    assert (detached.returncode, detached.stderr) == (0, "")
    assert detached.stdout == explain("--gpus=free:2").stdout


def test_a_job_behind_env_is_explained_with_its_variables(tracked, amd_ctk):
    answer = amd_ctk("explain", "--", "env", "CUDA_VISIBLE_DEVICES=1", "amd-ctk", "run", "--gpus=2", "--", "true")

    assert answer.returncode == 0
    assert answer.stdout.splitlines()[-1] == "CUDA_VISIBLE_DEVICES is removed"


def test_the_variables_are_those_that_the_command_then_has(tracked, explain, amd_ctk):
    explained = explain("--gpus=1,3").stdout.splitlines()

    had = amd_ctk("run", "--gpus=1,3", "--", "env", GPU_DEVICE_ORDINAL="0").stdout.splitlines()

    named = [line for line in had if "VISIBLE" in line or "GPU_DEVICE" in line]
    assert sorted(named) == sorted(line for line in explained if "VISIBLE" in line)


@pytest.mark.needs("root")
def test_a_job_that_would_be_refused_ends_with_the_code_of_the_refusal(tracked, explain):
    with Tracker(tracked).reserve("0-2", name="holder"):
        refused = explain("--gpus=free:2")
        waits = explain("--gpus=free:2", "--wait")
    impossible = explain("--gpus=free:5", "--wait")

    assert (refused.returncode, refused.stdout) == (1, f"The command does not start:\n  {NOT_FREE}\n")
    assert (waits.returncode, waits.stdout) == (0, f"The command does not start yet:\n  {NOT_FREE}\n")
    assert impossible.returncode == 4
    assert impossible.stdout == "The command does not start:\n  free:5: this host has 4 GPUs\n"


def test_a_request_that_only_the_service_serves_is_explained(tracked, explain):
    answer = explain("--preempt=now")

    assert answer.returncode == 3
    assert answer.stdout == (
        "The command does not start:\n"
        "  users cannot reserve GPUs on this host"
        " (the administrator enables it with 'sudo amd-ctk users allow NAME')\n"
    )


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ((), "docker has no runtime amd (run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker')"),
        (("--runtime=runc",), "the container runs under runc, which gives it no GPU (write --runtime=amd)"),
    ],
)
def test_a_container_to_which_its_engine_gives_no_gpu_is_refused_as_run_refuses_it(
    tracked, amd_ctk, tmp_path, options, refusal
):
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("""#!/bin/sh\necho '{"Runtimes": {"runc": {"path": "runc"}}, "DefaultRuntime": "runc"}'\n""")
    docker.chmod(0o755)
    words = ("amd-ctk", "run", "--gpus=0", "--", "docker", "run", *options, "image")

    answer = amd_ctk("explain", "--", *words, PATH=f"{docker.parent}:{os.environ['PATH']}")

    assert (answer.returncode, answer.stdout) == (126, f"The command does not start:\n  {refusal}\n")


def test_a_wrong_command_line_is_refused_as_run_refuses_it(tracked, amd_ctk, explain):
    assert "No such option: --nope" in explain("--nope").stderr
    assert "give the words of one" in explain("--each=lines.txt").stderr
    missing = amd_ctk("explain", "--", "amd-ctk", "run", "--", "missing-program")
    assert (missing.returncode, missing.stderr) == (127, "missing-program cannot be run: it does not exist\n")


def test_a_command_that_does_not_exist_is_a_refusal_in_json(tracked, amd_ctk):
    answer = amd_ctk("explain", "--json", "--", "amd-ctk", "run", "--", "missing-program")

    explained = json.loads(answer.stdout)
    assert (answer.returncode, answer.stderr) == (127, "")
    assert (explained["starts"], explained["refusals"]) == (
        False,
        ["missing-program cannot be run: it does not exist"],
    )


@pytest.mark.parametrize(
    "option", ["--env=A=1", "--device=/dev/kfd", "--privileged", "--user=1000", "--container=x", "--bundle=x"]
)
def test_an_option_about_a_container_is_not_ignored_beside_a_job(tracked, amd_ctk, option):
    answer = amd_ctk("explain", option, "--", "amd-ctk", "run", "--", "true")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"{option.partition('=')[0]} describes a container; leave it out to explain" in answer.stderr


@pytest.mark.parametrize("options", [("--gpus=free:2",), ("--gpus=free:4", "--wait"), ("--gpus=free:4",)])
def test_json_is_as_its_schema_says(tracked, amd_ctk, options):
    with Tracker(tracked).reserve("0", name="holder"):
        answer = amd_ctk("explain", "--json", "--", "amd-ctk", "run", *options, "--", "true")

    explained = json.loads(answer.stdout)

    schema = files("amd_ctk").joinpath("explain/schema/explain-run.json").read_text(encoding="utf-8")
    jsonschema.validate(explained, json.loads(schema))
    assert explained["gpus"] == ([1, 2] if explained["starts"] else [])
    assert [explained["starts"], bool(explained["waits_for"]), bool(explained["refusals"])].count(True) == 1
