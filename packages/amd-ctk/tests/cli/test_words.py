"""Command lines as AMD's toolkit takes them are those of this one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from amd_ctk.cli.root import app
from amd_ctk.cli.words import respell

ROOT = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("original", "respelled"),
    [
        ("runtime configure -runtime=docker", "runtime configure --runtime=docker"),
        ("runtime configure -runtime docker -set-as-default", "runtime configure --runtime docker --set-as-default"),
        ("-debug cdi generate -output /x.json", "--debug cdi generate --output /x.json"),
        ("-d cdi validate -path=-", "-d cdi validate --path=-"),
        # A value is nobody's option.
        ("cdi generate --output -output", "cdi generate --output -output"),
        ("cdi list -help", "cdi list --help"),
        ("cdi list -bogus", "cdi list -bogus"),
        ("gpu list -- -json", "gpu list -- -json"),
        ("gpu-tracker 0,1-2 exclusive", "gpu-tracker 0,1-2 exclusive"),
        ("help", "--help"),
        ("h cdi", "cdi --help"),
        ("help cdi generate", "cdi generate --help"),
        ("cdi help", "cdi --help"),
        ("cdi h list", "cdi list --help"),
        ("gpu-tracker help status", "gpu-tracker help status"),
        ("config set help me", "config set help me"),
    ],
)
def test_the_originals_spelling_is_understood(original: str, respelled: str) -> None:
    assert respell(ROOT, original.split()) == respelled.split()


def test_help_is_a_command_of_every_group(host, amd_ctk) -> None:
    host()

    assert amd_ctk("help").stdout == amd_ctk("--help").stdout
    assert amd_ctk("cdi", "help", "list").stdout == amd_ctk("cdi", "list", "--help").stdout


def test_an_option_with_one_dash_is_read(host, amd_ctk) -> None:
    host()

    assert amd_ctk("cdi", "generate", "-output=/etc/cdi/x.json").stdout == "Generated CDI spec: /etc/cdi/x.json\n"


def test_the_module_is_the_program(host, amd_ctk) -> None:
    root = host().root

    answer = subprocess.run(
        [sys.executable, "-m", "amd_ctk", "gpu", "list"],
        env={"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": root},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, amd_ctk("gpu", "list").stdout, "")


def test_the_version_is_reported_in_one_line(host, amd_ctk) -> None:
    host()
    long = amd_ctk("version").stdout.splitlines()[0]

    answer = amd_ctk("--version")

    assert (answer.returncode, answer.stdout) == (0, long.replace("Version: v", "amd-ctk version ") + "\n")
