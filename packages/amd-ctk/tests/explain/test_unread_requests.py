"""Requests that nothing reads are named, with the words to add, and only where the container has no GPU."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run

BEHIND = "comes after the image, so it is an argument of its program: put it before the image"


@pytest.fixture
def ask(sleeping_host):
    """Return a function that explains a command on a host whose Docker has the AMD runtime."""
    Path(sleeping_host.path("/etc/docker")).mkdir(parents=True)
    settings = {"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}}
    Path(sleeping_host.path("/etc/docker/daemon.json")).write_text(json.dumps(settings))
    return lambda words: explain_container(parse_run(["docker", "run", *words.split()], {}), sleeping_host)


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (
            "--runtime=amd -e NVIDIA_VISIBLE_DEVICES=all img",
            ["NVIDIA_VISIBLE_DEVICES is read by nobody here: add AMD_VISIBLE_DEVICES=all"],
        ),
        (
            "--runtime=amd -e NVIDIA_VISIBLE_DEVICES=GPU-1234 img",
            ["NVIDIA_VISIBLE_DEVICES is read by nobody here: add AMD_VISIBLE_DEVICES=all"],
        ),
        (
            "--runtime=amd -e AMD_VISIBLE_DEVICE=0,2 img",
            ["AMD_VISIBLE_DEVICE is read by nobody here: add AMD_VISIBLE_DEVICES=0,2"],
        ),
        (
            "--runtime=amd -e AMD_VISABLE_DEVICES=0 img",
            ["AMD_VISABLE_DEVICES is read by nobody here: add AMD_VISIBLE_DEVICES=0"],
        ),
        (
            "--runtime=amd -e amd_visible_devices=0 img",
            ["amd_visible_devices is read by nobody here: add AMD_VISIBLE_DEVICES=0"],
        ),
        (
            "--runtime=amd -e ROCM_VISIBLE_DEVICES=1 img",
            ["ROCM_VISIBLE_DEVICES is read by nobody here: add AMD_VISIBLE_DEVICES=1"],
        ),
        (
            "-e AMD_VISIBLE_DEVICE=0 img",
            ["AMD_VISIBLE_DEVICE is read by nobody here: add --runtime=amd and AMD_VISIBLE_DEVICES=0"],
        ),
        (
            "--runtime=amd -e HIP_VISIBLE_DEVICES=0 img",
            ["HIP_VISIBLE_DEVICES chooses among GPUs that the container has: add AMD_VISIBLE_DEVICES=all"],
        ),
        ("img --runtime=amd", [f"--runtime=amd {BEHIND}"]),
        ("img --runtime amd true", [f"--runtime amd {BEHIND}"]),
        ("--runtime=amd img -e AMD_VISIBLE_DEVICES=all", [f"-e AMD_VISIBLE_DEVICES=all {BEHIND}"]),
        (
            "--runtime=amd img sh -c AMD_VISIBLE_DEVICES=all;rocm-smi",
            [f"AMD_VISIBLE_DEVICES=all {BEHIND.replace('put it', 'put -e AMD_VISIBLE_DEVICES=all')}"],
        ),
        ("img --gpus all", [f"--gpus all {BEHIND}"]),
        ("img --device=/dev/kfd --device /dev/dri", [f"--device=/dev/kfd {BEHIND}", f"--device /dev/dri {BEHIND}"]),
        ("img bash --device=amd.com/gpu=0", [f"--device=amd.com/gpu=0 {BEHIND}"]),
    ],
)
def test_a_request_that_nothing_reads_is_named(ask, words, problems):
    explanation = ask(words)

    assert list(explanation.problems) == problems
    assert explanation.lacks_gpus


def test_a_runtime_that_was_asked_for_is_not_advised_again(sleeping_host):
    words = ["docker", "run", "--runtime=amd", "-e", "NVIDIA_VISIBLE_DEVICES=0", "img"]

    explanation = explain_container(parse_run(words, {}), sleeping_host)

    assert list(explanation.problems) == ["NVIDIA_VISIBLE_DEVICES is read by nobody here: add AMD_VISIBLE_DEVICES=0"]


@pytest.mark.parametrize(
    "words",
    [
        "--runtime=amd -e AMD_VISIBLE_DEVICES=0 -e NVIDIA_VISIBLE_DEVICES=all img",
        "--runtime=amd -e AMD_VISIBLE_DEVICES=void -e NVIDIA_VISIBLE_DEVICES=all img",
        "--device=/dev/kfd --device=/dev/dri -e NVIDIA_VISIBLE_DEVICES=all img --gpus all",
        "-e NVIDIA_VISIBLE_DEVICES=void img",
        "-e CUDA_VISIBLE_DEVICES= img",
        "-e DEVICES=1 -e NVIDIA_DRIVER_CAPABILITIES=all img",
        # Programs have options of these names too.
        "img python train.py --gpus 1",
        "img vllm serve --device cuda",
        "img --device cpu",
    ],
)
def test_no_request_is_reported_if_each_was_read(ask, words):
    explanation = ask(words)

    assert (explanation.problems, explanation.lacks_gpus) == ((), False)


GPU_NODES = "--device=/dev/kfd --device=/dev/dri"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("img --rm", ["--rm"]),
        ("img --shm-size 8g --ipc=host bash", ["--shm-size 8g", "--ipc=host"]),
        (f"{GPU_NODES} img --privileged", ["--privileged"]),
        (f"{GPU_NODES} img --gpus all --name x", ["--gpus all", "--name x"]),
        (f"{GPU_NODES} img -it bash", ["-it"]),
        (f"{GPU_NODES} img -v /data:/data -p 80:80 -e A=B", ["-v /data:/data", "-p 80:80", "-e A=B"]),
        (f"{GPU_NODES} -- img --cap-add SYS_PTRACE", ["--cap-add SYS_PTRACE"]),
        # A value may be missing there, and a program may have options of its own beside.
        (f"{GPU_NODES} img --rm --model x --network", ["--rm"]),
        (f"{GPU_NODES} img --shm-size", []),
        (f"{GPU_NODES} img --model x --port 80", []),
        (f"{GPU_NODES} img -m model.gguf -c 4096 -t 8 -v -d", []),
        (f"{GPU_NODES} img --help", []),
        (f"{GPU_NODES} img docker run --privileged other", []),
    ],
)
def test_an_option_behind_the_image_is_said_to_be_its_programs(ask, words, options):
    notes = [note for note in ask(words).notes if "after the image" in note]

    assert notes == [f"{option} comes after the image: its program gets it, and not docker" for option in options]


def test_an_option_behind_the_image_is_named_once(ask):
    explanation = ask("img --privileged --rm")

    assert list(explanation.problems) == [f"--privileged {BEHIND}"]
    assert [note for note in explanation.notes if "after the image" in note] == [
        "--rm comes after the image: its program gets it, and not docker"
    ]


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Return a function that puts a script named docker in front of the engine."""

    def put(text):
        script = tmp_path / "docker"
        script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return f"{script} is a script, which is not read here and may add options"

    return put


SCRIPTS = (
    'exec /usr/bin/docker --context lab "$@"',
    'if [ "$1" = run ]; then shift; exec /usr/bin/docker run --runtime=amd -e AMD_VISIBLE_DEVICES=all "$@"; fi',
    "sudo -E /usr/bin/docker $*",
    'set -- "$1" --device /dev/kfd --device /dev/dri "${@:2}"\nexec docker "$@"',
    'export DOCKER_HOST=tcp://lab:2375\nexec docker "$@"',
    'exec podman --url unix:///run/p.sock "$@"',
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_in_front_of_the_engine_adds_is_not_known(ask, wrapped, script):
    sentence = wrapped(script)

    explanation = ask("img")

    assert (explanation.unknown, explanation.lacks_gpus) == (sentence, False)
    assert sentence in explanation.notes


def test_a_script_in_front_of_the_engine_takes_no_gpus_away(ask, wrapped):
    sentence = wrapped(SCRIPTS[0])

    explanation = ask(f"{GPU_NODES} img")

    assert (explanation.unknown, sentence in explanation.notes) == ("", True)
    assert explanation.usable


@pytest.mark.parametrize(
    "script",
    [
        'exec /usr/bin/docker "$@"',
        '# as root\nexec sudo /usr/bin/docker "$@"',
        'case "$*" in *"docker info"*) echo "{}" ;; esac',
        'echo "$@" >>/var/log/docker-calls',
    ],
)
def test_a_script_that_changes_nothing_is_not_mentioned(ask, wrapped, script):
    sentence = wrapped(script)

    explanation = ask("img")

    assert explanation.unknown == ""
    assert sentence not in explanation.notes


@pytest.mark.parametrize("device", ["/dev/dxg", "/dev/dxg:/dev/dxg"])
def test_the_gpu_of_windows_is_not_known(ask, device):
    assert (
        "/dev/dxg is the GPU of Windows, and whether ROCm can use it is not known here"
        in ask(f"--device={device} img").notes
    )
