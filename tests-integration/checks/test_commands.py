"""./demo and ./check say how to use them before they install anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sessions import EVERY_CHECK

CHECKOUT = Path(__file__).parents[2]


def call(*words):
    # With nothing to be found on the PATH but what these lines need.
    ended = subprocess.run(
        ["/bin/sh", *words], cwd=CHECKOUT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("0-2", "--help")])
def test_the_demo_has_a_help(words):
    status, printed, said = call("./demo", *words)

    assert (status, said) == (0, "")
    assert printed.startswith("Usage: sudo ./demo [GPUS...]\n")


def test_the_demo_refuses_an_option_that_it_does_not_have():
    assert call("./demo", "0", "--gpus=1") == (
        2,
        "",
        "demo: there is no option --gpus=1; './demo --help' shows how to use it\n",
    )


@pytest.mark.parametrize("words", [("--help",), ("lint", "-h")])
def test_the_check_has_a_help(words):
    status, printed, said = call("./check", *words)

    assert (status, said) == (0, "")
    assert printed.startswith("Usage: sudo ./check [SESSION...] [-- WORDS]\n")


def test_the_help_names_every_session_that_the_check_runs():
    *names, last = EVERY_CHECK

    assert f"Runs {', '.join(names)} and {last}," in call("./check", "--help")[1]
