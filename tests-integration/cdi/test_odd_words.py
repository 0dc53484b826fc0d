"""Engines still answer to right and wrong words what is kept of them.

packages/amd-ctk/tests/explain/test_odd_words.py compares explain with the kept answers, which AMD_EXPLAINED_DATA=1
writes again.
"""

from __future__ import annotations

import os

import pytest

from support.compose_services import DEFAULTS, ENV_FILE
from support.debian_root import compose_root
from support.kept_answers import answer_of, read_answers, write_answers
from support.odd_lines import MIXED, SEED, make_odd_lines
from support.odd_services import make_odd_services
from support.recorded import ENGINES, Recorded
from support.run_lines import ENV_FILE_TEXT

# A busy machine takes its time for hundreds of containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(7200)]

COMPOSE = {"compose-1.29": "bookworm", "compose-2.26": "trixie"}
PROJECT = "/box/project"


@pytest.mark.parametrize("name", ENGINES)
def test_engine_answers_as_it_did(recorded, name):
    here = recorded(name)
    answers = []

    for line in make_odd_lines(SEED, MIXED, is_podman=here.engine == "podman"):
        spec, printed = here.ask_engine(here.command(line.words, line.before), with_caller=line.with_caller)
        answers.append(answer_of(line, spec, printed))

    compare(name, answers)


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_answers_as_it_did(make_machine, name):
    here = Recorded(make_machine(compose_root(COMPOSE[name])), "docker")
    here.box.write(f"{PROJECT}/{ENV_FILE}", ENV_FILE_TEXT.encode())
    here.box.write(f"{PROJECT}/.env", DEFAULTS.encode())
    program = ["docker-compose"] if name == "compose-1.29" else ["docker", "compose"]
    command = [*program, f"--file={PROJECT}/compose.yaml", "up", "--force-recreate"]
    answers = []

    for service in make_odd_services(SEED, MIXED):
        here.box.write(f"{PROJECT}/compose.yaml", service.text.encode())
        spec, printed = here.ask_engine(command, with_caller=service.with_caller)
        answers.append(answer_of(service, spec, printed))

    compare(name, answers)


def compare(name, answers):
    if os.environ.get("AMD_EXPLAINED_DATA"):
        write_answers(name, answers)
    kept = read_answers(name)
    changed = [(before, now) for before, now in zip(kept, answers, strict=True) if before[:2] != now[:2]]
    assert changed == []
