"""What a process of the broker's has of it."""

from __future__ import annotations

import os

import pytest

from amd_gpu_sharing.broker.jobs.child import Children

KEPT, OTHER = 200, 201


@pytest.fixture
def answers():
    """Return the end of a pipe that a child may write to, and to which two neighbouring descriptors lead."""
    reading, writing = os.pipe()
    for number in (KEPT, OTHER):
        os.dup2(writing, number)
    os.close(writing)
    with open(reading, "rb") as file:
        yield file


def test_a_child_has_the_descriptors_that_it_keeps_and_not_those_beside_them(answers):
    pid = Children().start(lambda: os.write(KEPT, " ".join(os.listdir("/proc/self/fd")).encode()), keep=[KEPT])
    os.waitpid(pid, 0)
    for number in (KEPT, OTHER):
        os.close(number)

    opened = answers.read().decode().split()
    assert (str(KEPT) in opened, str(OTHER) in opened) == (True, False)
