"""What the service says that it would give a job is what it then gives."""

from __future__ import annotations

import pytest

from amd_gpu_sharing.broker.requests.protocol import PREVIEW, RESERVE, Request
from support.shared_host import ALICE, BOB, CAROL, run, users


def previewed(person, uid, name, gpus, **more):
    """Return what a user is told of a job, in full."""
    asked = {"wait": True, **more}
    return person(uid, Request(verb=PREVIEW, name=name, gpus=gpus, **asked)).line()


SCENES = {
    "free GPUs": ("free:2", {}),
    "as many as there are": ("free:5", {}),
    "one too many": ("free:6", {}),
    "one too many, without waiting": ("free:6", {"wait": False}),
    "a GPU that another has": ("0", {}),
    "a GPU that another has, without waiting": ("0", {"wait": False}),
    "behind another who waits": ("1", {}),
    "behind another who waits, without waiting": ("1", {"wait": False}),
    "more than allowed": ("free:7", {}),
    "more than left of a limit": ("free:6", {"wait": False}),
    "what is spare": ("free:2", {"spare": True}),
    "no GPU of this host": ("17", {}),
    "as a job that runs is called": ("free:1", {"name": "mine"}),
    "as a job that waits is called": ("0", {"name": "patient"}),
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_preview_says_what_the_job_then_reads(host, broker, person, scene):
    broker.set_terms("fifo", "everyone:gpus=6:time=2h")
    gpus, options = SCENES[scene]
    asked = {"name": "train", "gpus": gpus, **options}
    assert person(ALICE, run("holder", "0")).line() == "got (0,)"
    assert person(CAROL, run("wide", "0-1")).line().startswith("waiting for 2 GPUs: 1 free of 2")
    assert person(BOB, run("mine", "7")).line() == "got (7,)"
    assert person(BOB, run("patient", "0")).line().startswith("waiting for 1 GPU: 0 free of 1")
    before = users(host)

    said = previewed(person, BOB, **asked)

    assert users(host) == before
    assert person(BOB, run(**asked)).line() == said


def test_a_job_is_told_behind_whom_it_would_wait(broker, person):
    assert person(ALICE, run("holder", "0")).line() == "got (0,)"
    person(CAROL, run("first", "0")).line()

    assert previewed(person, BOB, "train", "0") == (
        f"waiting for 1 GPU: 0 free of 1 that fits, 1 job before this one ({CAROL}'s first: 1 GPU);"
        f" GPU 0: {ALICE}'s holder since 12:00"
    )


def test_a_job_in_a_reservation_has_the_gpus_of_that(broker, person):
    assert person(BOB, Request(verb=RESERVE, name="debug", gpus="3", seconds=60)).line() == "got (3,)"

    assert previewed(person, BOB, "train", "", reservation="debug") == "got (3,)"
    assert previewed(person, ALICE, "train", "", reservation="debug") == (
        "11: you have no reservation debug (see 'amd-ctk queue')"
    )


def test_a_user_who_may_not_reserve_is_told_so(broker, person):
    broker.set_terms("fifo", f"alice={ALICE}")

    assert previewed(person, BOB, "train", "free:1").startswith("3: you may not reserve GPUs on this host")


def test_names_that_others_may_not_read_are_not_read_in_a_preview_either(broker, person):
    broker.has_private_names = True
    broker.set_terms("fifo", "everyone")
    assert person(BOB, run("secret-project", "free:1")).line() == "got (0,)"

    assert previewed(person, BOB, "secret-project", "free:1") == person(BOB, run("secret-project", "free:1")).line()
