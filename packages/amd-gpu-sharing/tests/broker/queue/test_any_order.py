"""Who is served next, held to a model: 10,000 random steps, first come first served and fair."""

from __future__ import annotations

import random

import pytest

from amd_gpu_sharing.broker.queue.order import serve, sort_tickets
from amd_gpu_sharing.broker.queue.recent_use import decayed, with_use
from amd_gpu_sharing.broker.requests.demand import as_bits, numbers_in
from amd_gpu_sharing.broker.requests.people import FAIR, FIFO
from support.shared_host import make_demand, make_ticket

GPUS = 8
STEPS = 10_000


class Model:
    """GPUs, jobs that have some, and jobs that wait; decided the slow and obvious way."""

    def __init__(self):
        self.free = set(range(GPUS))
        self.waiting = []
        self.running = []

    def next_of(self, order, used):
        """Return who is to be served, one after the other, by comparing each with all that come before."""
        key = (
            (lambda job: (used.get(job["person"], 0.0), job["number"]))
            if order == FAIR
            else (lambda job: job["number"])
        )
        served = []
        free = set(self.free)
        for job in sorted(self.waiting, key=key):
            earlier = [
                other for other in self.waiting if key(other) < key(job) and other not in served and not other["away"]
            ]
            wanted_before = {gpu for other in earlier for gpu in other["among"]}
            fitting = sorted((free & set(job["among"])) - wanted_before)
            if not job["away"] and len(fitting) >= job["count"]:
                served.append(job)
                free -= set(fitting[: job["count"]])
        return [job["number"] for job in served]


def serve_now(model, order, used):
    """Return who is served by the code that is tested."""
    jobs = {job["number"]: job for job in model.waiting}
    free = set(model.free)
    served = []

    def try_now(number, among):
        job = jobs[number]
        fitting = sorted(free & set(numbers_in(among)))
        if len(fitting) < job["count"]:
            return False
        taken = fitting[: job["count"]]
        free.difference_update(taken)
        served.append((job, taken))
        return True

    demands = {number: make_demand(1, as_bits(job["among"]), person=job["person"]) for number, job in jobs.items()}
    tickets = sort_tickets([make_ticket(number, demand) for number, demand in demands.items()], used, order)
    serve(
        {ticket.number: demands[ticket.number] for ticket in tickets},
        holds_up=lambda number: None if jobs[number]["away"] else demands[number],
        try_now=try_now,
    )
    return served


@pytest.mark.parametrize("order", [FIFO, FAIR])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_is_that_of_the_model_at_every_step(order, seed):
    chance = random.Random(seed)
    model = Model()
    used = {}
    for number in range(STEPS):
        what = chance.random()
        if what < 0.45 and len(model.waiting) < 12:
            among = range(GPUS) if chance.random() < 0.6 else chance.sample(range(GPUS), chance.randint(1, 4))
            among = sorted(among)
            job = {"number": number, "person": chance.randint(1, 5), "among": among, "away": False}
            model.waiting.append({**job, "count": chance.randint(1, len(among))})
        elif what < 0.8 and model.running:
            _, taken = model.running.pop(chance.randrange(len(model.running)))
            model.free |= set(taken)
        elif model.waiting:
            job = chance.choice(model.waiting)
            if what < 0.9:
                job["away"] = not job["away"]
            else:
                model.waiting.remove(job)
        holding = {}
        for job, taken in model.running:
            holding[job["person"]] = holding.get(job["person"], 0) + len(taken)
        used = with_use(used, holding, chance.random() * 600)

        expected = model.next_of(order, used)
        served = serve_now(model, order, used)

        assert [job["number"] for job, _ in served] == expected
        for job, taken in served:
            assert set(taken) <= model.free
            model.free -= set(taken)
            model.waiting.remove(job)
            model.running.append((job, taken))


def test_people_who_always_have_jobs_get_the_same_gpu_time():
    """Each of three has jobs of another length: of what counts all have had the same, up to one job."""
    lengths = {1: 10.0, 2: 70.0, 3: 600.0}
    used, had = {}, dict.fromkeys(lengths, 0.0)
    for _ in range(20_000):
        tickets = [make_ticket(each, make_demand(1, 1, person=each)) for each in lengths]
        person = sort_tickets(tickets, used, FAIR)[0].person
        used = with_use(used, {person: 1}, lengths[person])
        had[person] += lengths[person]

    assert max(used.values()) - min(used.values()) <= 600.0
    assert [round(seconds / sum(had.values()), 1) for seconds in had.values()] == [0.3, 0.3, 0.3]


def test_one_person_is_served_in_the_order_of_the_jobs():
    tickets = [make_ticket(number, make_demand(1, 1, person=7)) for number in (5, 3, 9)]

    assert [ticket.number for ticket in sort_tickets(tickets, {7: 1e9}, FAIR)] == [3, 5, 9]


def test_use_counts_half_after_six_hours():
    assert decayed({1: 100.0, 2: 0.001}, 6 * 3600) == {1: 50.0}


def test_use_while_it_decays_adds_up_as_if_counted_often():
    at_once = with_use({1: 100.0}, {1: 2}, 7200)
    often = {1: 100.0}
    for _ in range(7200):
        often = with_use(often, {1: 2}, 1)

    assert at_once[1] == pytest.approx(often[1])


def test_a_clock_that_goes_back_takes_nothing_away():
    assert with_use({1: 100.0}, {1: 8}, -50) == {1: 100.0}
