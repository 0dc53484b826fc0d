"""The history of real containers of Docker: those that end, those that are killed, and those that Docker restarts."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from support.docker import IMAGE
from support.simulated import run_amd_ctk
from tracker.test_docker import TrackedDocker, build_host

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


@pytest.fixture
def engine(start_docker, tmp_path):
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    made = TrackedDocker(start_docker(host.root), host)
    made.tracker("enable")
    return made


def lines(engine):
    directory = engine.host.path("/var/lib/amd-container-toolkit/history")
    months = [name for name in os.listdir(directory) if name.endswith(".jsonl")]
    text = "".join(open_month(directory, name) for name in months)
    return [json.loads(line) for line in text.splitlines() if line]


def open_month(directory, name):
    with open(f"{directory}/{name}", encoding="utf-8") as file:
        return file.read()


def wait_for_lines(engine, count):
    for _ in range(600):
        if len(found := lines(engine)) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the history has {len(lines(engine))} lines")


def test_every_container_that_ended_is_a_line_with_its_gpus(engine):
    words = ("run", "--rm", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0-1", IMAGE, "true")
    engine.docker(*words)
    killed = engine.run("2")
    os.kill(engine.init_of(killed), signal.SIGKILL)
    stopped = engine.run("3")
    engine.docker("stop", "--time=0", stopped)

    found = wait_for_lines(engine, 3)

    assert [(len(line["gpus"]), line["how"]) for line in found] == [(2, "hook"), (1, "hook"), (1, "hook")]
    assert [line["id"] for line in found[1:]] == [killed, stopped]
    assert all(0 < line["end"] - line["start"] < 600 for line in found)


def test_a_sample_has_the_name_and_the_image_of_a_running_container(engine):
    running = engine.run("0", "--name=training")

    run_amd_ctk(engine.host.root, "usage", "sample")

    by_image = json.loads(run_amd_ctk(engine.host.root, "report", "--by=image", "--json"))
    assert [(total["image"], total["starts"]) for total in by_image["totals"]] == [(IMAGE, 1)]
    engine.docker("rm", "--force", running)
    (line,) = wait_for_lines(engine, 1)
    assert (line["name"], line["image"], line["looks"], line["how"]) == ("training", IMAGE, 1, "hook")
