"""What a waiter is told."""

from __future__ import annotations

import pytest

from amd_gpu_sharing.broker.queue.place import Place, format_holders, format_waiting
from amd_gpu_sharing.broker.requests.demand import Demand
from support.shared_host import make_demand, make_ticket


def job(name, count, **fields):
    return make_demand(count, 0b1, name=name, **fields)


def test_a_waiter_is_told_who_is_before_it():
    before = [job("train-3", 4), job("build-7", 1)]

    said = format_waiting(2, free=1, fitting=8, host_total=8, before=before)

    assert said == "waiting for 2 GPUs: 1 free of 8, 2 jobs before this one (train-3: 4 GPUs, build-7: 1)"


@pytest.mark.parametrize(
    ("count", "before", "said"),
    [
        (1, [], "waiting for 1 GPU: 1 free of 8"),
        (2, [job("a", 1)], "waiting for 2 GPUs: 1 free of 8, 1 job before this one (a: 1 GPU)"),
        (
            1,
            [job("a", 1), job("b", 2, vram_mb=60000), job("c", 2)],
            "waiting for 1 GPU: 1 free of 8, 3 jobs before this one (a: 1 GPU, b: 60000 MiB of 2 GPUs, c: 2)",
        ),
        (
            1,
            [job("a", 1), *[job("b", 2)] * 198],
            "waiting for 1 GPU: 1 free of 8, 199 jobs before this one (a: 1 GPU, b: 2, b: 2, b: 2, b: 2 and 194 more)",
        ),
    ],
)
def test_numbers_agree_with_their_nouns(count, before, said):
    assert format_waiting(count, free=1, fitting=8, host_total=8, before=before) == said


@pytest.mark.parametrize(
    ("fitting", "said"),
    [(1, "waiting for 1 GPU: 0 free of 1 that fits"), (2, "waiting for 1 GPU: 0 free of 2 that fit")],
)
def test_only_gpus_that_fit_are_counted(fitting, said):
    assert format_waiting(1, free=0, fitting=fitting, host_total=8, before=[]) == said


def test_the_first_job_of_the_line_reads_what_can_be_done():
    said = format_waiting(1, free=0, fitting=8, host_total=8, before=[], hint="to leave out user 1000, ignore it")

    assert said == "waiting for 1 GPU: 0 free of 8; to leave out user 1000, ignore it"


def test_a_client_that_connects_again_keeps_its_turn_for_what_it_requests_now():
    before, now = make_demand(2, 0b0011), make_demand(1, 0b1100, seconds=60.0)
    ticket = make_ticket(7, before, put_first=5)
    place = Place(ticket, before, lambda: 0.0, None)

    place.connect(None, now)

    assert place.demand == now
    assert place.ticket == ticket.replace(count=1, among=(2, 3))


def test_a_ticket_tells_a_later_service_which_gpus_its_job_waits_for():
    demand = make_demand(2, 0b1011, person=7, owner=7, is_spare=True)

    assert Demand.of_ticket(make_ticket(1, demand)) == demand


def test_a_waiting_job_reads_which_jobs_have_the_gpus_and_since_when(time_zone):
    time_zone("UTC")
    holders = [("ann's train", [2], 0.0), ("bob's sweep", [3, 4], 3600.0), ("c", [5], 7200.0), ("d", [6], 1.0)]

    assert format_holders([], now=86000.0) == ""
    assert format_holders(holders[:1], now=86000.0) == "; GPU 2: ann's train since 00:00"
    assert format_holders([*holders, *holders[:1]], now=86000.0) == (
        "; GPU 2: ann's train since 00:00, GPUs 3 4: bob's sweep since 01:00, GPU 5: c since 02:00 and 2 more"
    )
