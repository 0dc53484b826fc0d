"""Random lines of jobs that want partly the same GPUs; a judge looks at each grant, and at each GPU that stays idle."""

from __future__ import annotations

import random

from amd_gpu_sharing.broker.queue.order import Outlook, left_for, serve, sort_tickets
from amd_gpu_sharing.broker.requests.demand import as_bits, numbers_in
from amd_gpu_sharing.broker.requests.people import FIFO
from support.line_judge import Moment, Waiter
from support.shared_host import make_demand, make_ticket

GPUS = 6
LINES = 1000
JOBS = 20
MOST_OF_ONE = 3


class Line:
    """A host, its jobs and its minutes; the code under test decides, and the judge looks at each decision."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.minute = 0
        self.waiting, self.running, self.drained = {}, {}, set()
        self.granted = self.refused = self.went_first = 0

    def run(self):
        for number in range(JOBS):
            self.pass_time(self.chance.randint(0, 8))
            if self.chance.random() < 0.15:
                self.drained ^= {self.chance.randrange(GPUS)}
            job = self.draw(number)
            if self.chance.random() < 0.7:
                self.waiting[number] = job
                self.settle()
            else:
                self.settle()
                self.come_without_waiting(job)
        while self.running:
            self.pass_time(1)
            self.settle()

    def draw(self, number):
        """Return a job of a person, or of root, who has no limits; some are spare, and some stop now and then."""
        chance = self.chance
        fits = set(range(GPUS)) if chance.random() < 0.4 else set(chance.sample(range(GPUS), chance.randint(1, 4)))
        person = chance.randrange(4)
        limit = None if person == 0 or chance.random() < 0.2 else chance.randint(1, 40)
        return {
            "number": number,
            "person": person,
            "fits": fits,
            "count": len(fits) if chance.random() < 0.3 else chance.randint(1, min(3, len(fits))),
            "limit": limit,
            "length": chance.randint(1, limit or 40),
            "spare": chance.random() < 0.1,
            "stopped": chance.random() < 0.05,
        }

    def pass_time(self, minutes):
        for _ in range(minutes):
            self.minute += 1
            ended = [number for number, (job, _, began) in self.running.items() if began + job["length"] <= self.minute]
            for number in ended:
                del self.running[number]
            if ended:
                self.settle()

    def free(self):
        return set(range(GPUS)) - self.drained - {gpu for _, gpus, _ in self.running.values() for gpu in gpus}

    def counts(self, job):
        """Return whether a job can be served: it is not stopped, and its person has not as many GPUs as allowed."""
        held = sum(len(gpus) for other, gpus, _ in self.running.values() if other["person"] == job["person"])
        is_over = job["person"] != 0 and not job["spare"] and held + job["count"] > MOST_OF_ONE
        return not (job["stopped"] or is_over)

    def demand(self, job):
        return make_demand(
            job["count"],
            as_bits(job["fits"]),
            person=job["person"],
            seconds=float(job["limit"] or 0),
            is_spare=job["spare"],
        )

    def outlook(self):
        ends = {gpu: began + job["limit"] for job, gpus, began in self.running.values() if job["limit"] for gpu in gpus}
        ends.update(dict.fromkeys(self.drained, float("inf")))
        return Outlook(now=float(self.minute), free=as_bits(self.free()), ends=ends)

    def holds_up(self, number):
        job = self.waiting[number]
        left = job["fits"] - self.drained
        return (
            self.demand(job).replace(fitting=as_bits(left)) if self.counts(job) and len(left) >= job["count"] else None
        )

    def in_order(self):
        """Return the requests of the jobs that wait, by number."""
        demands = {number: self.demand(job) for number, job in self.waiting.items()}
        tickets = [make_ticket(number, demand) for number, demand in demands.items()]
        return {ticket.number: demands[ticket.number] for ticket in sort_tickets(tickets, {}, FIFO)}

    def settle(self):
        """Serve the line as after each change, and judge every grant and what stays idle."""
        serve(self.in_order(), holds_up=self.holds_up, try_now=self.try_now, read_outlook=self.outlook)
        line = [self.judged(self.waiting[number]) for number in self.in_order()]
        assert self.moment().find_idle(line) == ""

    def try_now(self, number, among):
        job = self.waiting[number]
        left = sorted(self.free() & set(numbers_in(among)))
        if len(left) < job["count"]:
            return False
        before = [self.judged(self.waiting[each]) for each in self.in_order()]
        place = list(self.in_order()).index(number)
        self.went_first += place > 0
        self.give(job, set(left[: job["count"]]), before[:place])
        del self.waiting[number]
        return True

    def come_without_waiting(self, job):
        """Ask as a job without `--wait`, or a reservation: it comes after all who wait, except spare jobs."""
        line = {number: demand for number, demand in self.in_order().items() if not demand.is_spare}
        before = [self.judged(self.waiting[number]) for number in line]
        if not self.counts(job):
            return
        for gpus in left_for(self.demand(job), line, holds_up=self.holds_up, outlook=self.outlook()):
            left = sorted(self.free() & set(numbers_in(gpus)))
            if len(left) >= job["count"]:
                self.give(job, set(left[: job["count"]]), before)
                return
        self.refused += 1
        assert len(self.free() & self.moment().allowed(self.judged(job), before)) < job["count"]

    def give(self, job, gpus, before):
        assert self.moment().find_fault(self.judged(job), before, gpus) == ""
        self.running[job["number"]] = (job, gpus, self.minute)
        self.granted += 1

    def moment(self):
        ends = {gpu: began + job["limit"] for job, gpus, began in self.running.values() if job["limit"] for gpu in gpus}
        return Moment(self.minute, self.free(), ends, set(self.drained))

    def judged(self, job):
        return Waiter(job["fits"], job["count"], job["limit"], self.counts(job))


def test_each_grant_is_allowed_and_no_gpu_is_idle_that_the_rule_gives_to_somebody():
    granted = refused = went_first = 0
    for seed in range(LINES):
        line = Line(seed)

        line.run()

        granted, refused, went_first = granted + line.granted, refused + line.refused, went_first + line.went_first
    # What the lines are made of, so that the judge has something to look at.
    assert granted > 10 * LINES
    assert refused > LINES
    assert went_first > LINES


def test_a_job_takes_gpus_that_nobody_waits_for():
    """One person waits for GPU 2, which is in use; GPUs 6 and 7 are free for everybody else."""
    assert served([job({2}, 1), job({2, 6, 7}, 1)], free={6, 7}) == {2: {6}}


def test_a_job_for_any_gpu_leaves_those_that_somebody_waits_for():
    line = [job({0, 1}, 2), job({0, 1, 2, 3}, 1)]

    assert served(line, free={0, 3}) == {2: {3}}


def test_a_later_job_holds_up_nobody_before_it():
    assert served([job({0, 1}, 1), job({0}, 1)], free={0}) == {1: {0}}


def job(fits, count, seconds=0.0):
    return make_demand(count, as_bits(fits), seconds=seconds)


def served(jobs, *, free):
    """Return who gets which GPUs of jobs in their order, by number from 1."""
    waiters = dict(enumerate(jobs, 1))
    given = {}

    def look():
        return Outlook(free=as_bits(free - {gpu for gpus in given.values() for gpu in gpus}))

    def try_now(number, among):
        left = sorted(numbers_in(look().free & among))
        if len(left) >= waiters[number].count:
            given[number] = set(left[: waiters[number].count])
        return number in given

    serve(waiters, holds_up=waiters.get, try_now=try_now, read_outlook=look)
    return given
