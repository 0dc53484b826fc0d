"""amd-ctk without its companions: what they have says how to install it, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amd_ctk.cli.tree import HIDDEN
from amd_ctk.companions import COMMANDS

# As if the packages were not there.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, *words):
        hidden = name.partition(".")[0] in ("amd_gpu_images", "amd_gpu_sharing", "amdgpu_simulator")
        return None if hidden else super().find_spec(name, *words)

sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
from amd_ctk.cli import main
main()
"""
RULES = (
    "amd-gpu-sharing is not installed: rules for people are not applied"
    " (run 'pip install --find-links dist amd-gpu-sharing' in the clone)\n"
)
USERS = 'users = ["everyone:gpus=1"]\n'


@pytest.fixture
def alone(host, tmp_path):
    """Return a function that runs amd-ctk without companions on four MI210."""
    built = host()

    def run(*words):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "AMD_CTK_HOST_ROOT": built.root,
            "COLUMNS": "200",
        }
        command = [sys.executable, "-c", WITHOUT, *words]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        announced = f"Working on the simulated host {built.root}, not on this machine\n"
        return answer.returncode, answer.stdout, answer.stderr.replace(announced, "")

    run.host = built
    return run


def write_users(alone):
    path = alone.host.path("/etc/amd-container-toolkit/config.toml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(USERS)
    assert alone("config", "compile")[0] == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_companion_says_how_to_install_it(alone, command):
    distribution = COMMANDS[command][1]

    assert alone(command, "--help") == (
        13,
        "",
        f"{distribution} is not installed (run 'pip install --find-links dist {distribution}' in the clone)\n",
    )


def test_help_lists_the_commands_that_are_not_installed(alone):
    code, printed, _ = alone("--help")

    # A long line is wrapped.
    assert (code, " ".join(printed.split()).count("(not installed)")) == (0, len(COMMANDS.keys() - {*HIDDEN}))


@pytest.mark.parametrize(
    "words",
    [
        ("gpu", "list"),
        ("status",),
        ("gpu", "page"),
        ("gpu-tracker", "enable"),
        ("gpu-tracker", "status"),
        ("run", "--", "true"),
        ("cdi", "generate"),
        ("cdi", "list"),
        ("config", "set", "unknown-gpus", "ignore"),
        ("explain", "-e", "AMD_VISIBLE_DEVICES=0"),
        ("runtime", "configure", "--all", "--remove", "--dry-run"),
        ("--install-completion", "fish"),
    ],
)
def test_the_other_commands_work(alone, words):
    if words[0] == "run":
        alone("gpu-tracker", "enable")

    code, _, errors = alone(*words)

    assert (code, "not installed" in errors) == (0, False), errors


@pytest.mark.parametrize(
    ("words", "distribution"),
    [
        (("run", "--wait", "--", "true"), "amd-gpu-sharing"),
        (("run", "--reservation=debug", "--", "true"), "amd-gpu-sharing"),
        (("config", "set", "gpu-access", "reserved"), "amd-gpu-sharing"),
        (("config", "set", "users", "everyone"), "amd-gpu-sharing"),
        (("gpu-tracker", "serve"), "amd-gpu-sharing"),
        (("swarm", "constraint", "oci:images"), "amd-gpu-images"),
        (("runtime", "configure", "--runtime=podman", "--images"), "amd-gpu-images"),
        (("--simulate", "mi300x-8", "gpu", "list"), "amdgpu-simulator"),
    ],
)
def test_a_part_of_another_command_says_what_it_needs(alone, words, distribution):
    alone("gpu-tracker", "enable")

    code, printed, errors = alone(*words)

    assert (code, printed) == (13, "")
    assert (
        errors == f"{distribution} is not installed (run 'pip install --find-links dist {distribution}' in the clone)\n"
    )


@pytest.mark.parametrize("words", [("status",), ("run", "--", "true")])
def test_rules_that_are_not_applied_are_named(alone, words):
    alone("gpu-tracker", "enable")
    write_users(alone)

    code, _, errors = alone(*words)

    assert code == 0
    assert errors.startswith(RULES) or errors.endswith(RULES)


def test_doctor_names_rules_that_are_not_applied(alone):
    write_users(alone)

    code, printed, _ = alone("doctor", "--only=sharing")

    assert code == 1
    assert "amd-gpu-sharing is not installed: rules for people are not applied" in printed
    assert "fix: pip install --find-links dist amd-gpu-sharing" in printed


def test_jobs_that_wait_count_as_rules(alone):
    waiting = alone.host.path("/run/amd-container-toolkit/waiting")
    os.makedirs(waiting)
    with open(f"{waiting}/00000000000000000001-train.json", "w", encoding="utf-8") as file:
        file.write("{}")

    assert alone("status")[2].endswith(RULES)
