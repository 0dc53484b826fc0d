"""What the TAB key offers for values, and that every command has examples which parse."""

from __future__ import annotations

import shlex

import pytest
import typer.main

from amd_ctk.cli.root import app
from amd_gpu_images.reference import parse_reference
from amdgpu_discovery.command_line.completion_scripts import format_script


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("amd-ctk runtime configure --runtime ", "docker podman containerd crio slurm"),
        ("amd-ctk runtime configure --runtime p", "podman"),
        ("amd-ctk config set unknown", "unknown-gpus"),
        ("amd-ctk config set unknown-gpus ", "error ignore"),
        ("amd-ctk config show low", "low-level-runtime"),
        ("amd-ctk cdi generate --gpus ", "0 1 2 3 all"),
        ("amd-ctk cdi generate --gpus 0,", "0,0 0,1 0,2 0,3"),
        ("amd-ctk gpu-tracker 0", "0"),
        ("amd-ctk gpu-tracker 0 ", "exclusive shared"),
        ("amd-ctk gpu-tracker 0 ex", "exclusive"),
        ("amd-ctk doctor --only driver,k", "driver,kfd"),
        ("amd-ctk --simulate mi30", "mi300a-4 mi300x-8 mi300x-8-cpx mi300x-vf mi308x-8-cpx"),
        ("amd-ctk simulate run one", "one-gpu"),
        ("amd-ctk simulate break 3 h", "hot hang"),
    ],
)
def test_values_are_completed(host, amd_ctk, line, offered):
    host()
    words = line.split()

    count = len(words) if line.endswith(" ") else len(words) - 1
    answer = amd_ctk(COMP_WORDS=line, COMP_CWORD=str(count), _AMD_CTK_COMPLETE="complete_bash")

    assert answer.stdout.split() == offered.split()


def test_container_names_come_from_the_engines(host, amd_ctk, tmp_path, monkeypatch):
    host()
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\nprintf 'web\\nworker\\ndb\\n'\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}")

    answer = amd_ctk(COMP_WORDS="amd-ctk doctor --container w", COMP_CWORD="3", _AMD_CTK_COMPLETE="complete_bash")

    assert answer.stdout.split() == ["web", "worker"]


@pytest.mark.parametrize(
    "option",
    [
        # What is declared with its completion, choices, and what only the user knows.
        "',--gpus,=?:Which GPUs, as in AMD_VISIBLE_DEVICES.'",
        "',--only,=?:Run only these checks.'",
        "',--format,=?:File format. Default: by the file'\"'\"'s extension.'",
        "',--vendor,=:Vendor of the devices.'",
    ],
)
def test_the_script_says_for_which_options_the_program_knows_values(option):
    assert option in format_script(typer.main.get_command(app), "amd-ctk", "bash")


def test_without_a_driver_no_gpu_is_offered(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk(COMP_WORDS="amd-ctk cdi generate --gpus ", COMP_CWORD="4", _AMD_CTK_COMPLETE="complete_bash")

    assert (answer.stdout.strip(), answer.stderr) == ("", "")


def commands(group, words=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{words}{name} ")
        elif not command.hidden:
            yield f"{words}{name}", command


def examples_of(command):
    begin, title, *lines = command.epilog.split("\n")
    assert (begin, title) == ("\b", "Examples:")
    return lines


def test_every_command_has_examples_which_are_command_lines_of_it():
    for words, command in commands(typer.main.get_command(app)):
        for example in examples_of(command):
            assert example.removeprefix("sudo ").startswith(f"amd-ctk {words}")
            rest = shlex.split(example.removeprefix("sudo ").removeprefix(f"amd-ctk {words}"))
            # It raises where an option or argument is none of the command's.
            command.make_context(words, rest, resilient_parsing=False)


@pytest.mark.parametrize("words", ["image targets", "image check", "swarm constraint"])
def test_images_in_examples_are_named_as_the_commands_take_them(words):
    command = dict(commands(typer.main.get_command(app)))[words]

    for example in examples_of(command):
        given = command.make_context(words, shlex.split(example.removeprefix(f"amd-ctk {words}"))).params
        for image in given.get("images") or [given["image"]]:
            assert str(parse_reference(image)) == image
