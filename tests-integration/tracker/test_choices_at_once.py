"""Containers that ask for a free GPU at the same time: each GPU is given once, and nothing is refused that is free.

`nox -s choices` makes 200 containers 50 times and writes the table of docs/how-to/any-free-gpu.md.
"""

from __future__ import annotations

import json
import os
import time

import pytest

from support.marked_table import write_table

GPUS = 8
MANY = int(os.environ.get("AMD_CHOICE_CONTAINERS", "32"))
ROUNDS = int(os.environ.get("AMD_CHOICE_ROUNDS", "1"))
PAGE = os.environ.get("AMD_CHOICE_PAGE", "")


@pytest.mark.timeout(4 * 3600 if ROUNDS > 1 else 600)
def test_each_exclusive_gpu_is_given_once(engine_on):
    engine = engine_on("mi210-8")
    engine.ctk("gpu-tracker", "enable")
    engine.ctk("gpu-tracker", "all", "exclusive")
    outcomes = []
    for turn in range(ROUNDS):
        names = [f"r{turn}c{number:03}" for number in range(MANY)]
        for name in names:
            engine.prepare(name, "free:1")
        began = time.monotonic()

        exit_codes = {name: process.wait() for name, process in [(name, engine.create(name)) for name in names]}

        seconds = time.monotonic() - began
        started = [name for name in names if exit_codes[name] == 0]
        assert len(started) == GPUS
        assert sorted(given_to(engine, name) for name in started) == [[str(number)] for number in range(GPUS)]
        assert {number: len(names) for number, names in engine.users().items()} == dict.fromkeys(range(GPUS), 1)
        told = {said_to(engine, name) for name in names if exit_codes[name] != 0}
        assert {words for words in told if not is_refusal(words)} == set()
        outcomes.append((len(started), MANY - len(started), seconds))
        for name in started:
            engine.remove(name)
        if PAGE:
            # After each round: a run that is ended early has its result too.
            write_table(PAGE, "choices", [*rows_of(outcomes)])


def given_to(engine, name):
    """The GPUs that a container was told."""
    environment = json.loads((engine.bundles / name / "config.json").read_bytes())["process"]["env"]
    return dict(entry.split("=", 1) for entry in environment)["AMD_VISIBLE_DEVICES"].split(",")


def said_to(engine, name):
    """What the engine finds in the log of a container that did not start."""
    return json.loads((engine.bundles / name / "log.json").read_text().splitlines()[-1])["msg"]


def is_refusal(words):
    return words == (
        "amd-container-runtime: free:1: 0 of 8 GPUs are free (0-7 exclusive and in use);"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
    )


def rows_of(outcomes):
    """Return what happened as rows of a table."""
    seconds = sorted(seconds for _, _, seconds in outcomes)
    yield "what", "result"
    yield "date", time.strftime("%Y-%m-%d", time.gmtime())
    yield "rounds", f"{len(outcomes)}"
    yield "containers that ask for `free:1` at once, in each", f"{MANY}"
    yield "started, in every round", f"{outcomes[0][0]}"
    yield "refused, in every round", f"{outcomes[0][1]}"
    yield "GPUs given twice", "0"
    yield "seconds of a round, median", f"{seconds[len(seconds) // 2]:.1f}"
