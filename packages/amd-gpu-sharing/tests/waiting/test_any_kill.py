"""A waiter or a holder is killed, at any moment: nobody is stuck, and the others are served in their order."""

from __future__ import annotations

import os
import random
import time

import pytest

from amd_gpu_tracker.face.tracker import Tracker

JOBS = 10
SECONDS = 60


def waiting(host):
    return [ticket.name for ticket in Tracker(host).waiting()]


def collect(jobs, got):
    """Note which jobs have said that they have GPUs."""
    for job in jobs:
        while job.has_said_more() and (line := job.line()):
            if line.startswith("got"):
                got.append(job.name)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_kill_harms_nobody_else(host, job, seed):
    chance = random.Random(seed)
    jobs = [job(f"job-{number}", f"free:{chance.randint(1, 3)}") for number in range(JOBS)]
    time.sleep(chance.random())
    victims = chance.sample(jobs, 5)
    for victim in victims:
        victim.kill()
        time.sleep(chance.random() * 0.2)
    others = [each for each in jobs if each not in victims]
    got: list[str] = []
    end = time.monotonic() + SECONDS

    while len(got) < len(others):
        assert time.monotonic() < end, f"{waiting(host)} wait, {got} were served"
        order = waiting(host)
        fresh: list[str] = []
        collect([each for each in others if each.name not in got], fresh)
        # Who was served meanwhile stood before all who wait still.
        assert [name for name in order if name in fresh] == [name for name in order[: len(fresh)] if name in fresh]
        got += fresh
        for name in fresh:
            next(each for each in others if each.name == name).kill()
        time.sleep(0.02)

    assert waiting(host) == []
    assert [name for name in os.listdir(host.path("/run/amd-container-toolkit/waiting")) if name.endswith(".tmp")] == []
