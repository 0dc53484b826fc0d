"""Whatever jobs and containers do in whatever order, GPUs go to those whom a plain model of the queue names."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from itertools import combinations
from typing import NamedTuple

import pytest

from amd_gpu_tracker.claims.by_name import reserve_by_name
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_simulator import build_host
from support.enabled_tracker import enable

# More where there is time: TRACKER_QUEUE_STEPS=10000.
STEPS = int(os.environ.get("TRACKER_QUEUE_STEPS", "120"))
MOST_ALIVE = 14
GPUS = range(8)
RULES = ChoiceRules(groups={"notebooks": "0,7"})


class Wish(NamedTuple):
    """A request as the model knows it: GPUs that are named, or how many of which."""

    word: str
    count: int
    among: tuple[int, ...] = tuple(GPUS)
    in_one_hive: bool = False


WISHES = {
    "auto:1": Wish("auto", 1),
    "auto:3": Wish("auto", 3),
    "auto:2+xgmi": Wish("auto", 2, in_one_hive=True),
    "auto:2+numa:1": Wish("auto", 2, (4, 5, 6, 7)),
    "free:1": Wish("free", 1),
    "free:2": Wish("free", 2),
    "free:5": Wish("free", 5),
    "free:3+xgmi": Wish("free", 3, in_one_hive=True),
    "free:1+group:notebooks": Wish("free", 1, (0, 7)),
    "free:1+vram:64GiB": Wish("free", 1),
    "0": Wish("", 1, (0,)),
    "2-4": Wish("", 3, (2, 3, 4)),
    "all": Wish("", 8),
    "all+numa:1": Wish("", 4, (4, 5, 6, 7)),
}


class Model:
    """What should be: who has which GPUs, who waits in which order, and which GPUs are exclusive."""

    def __init__(self):
        self.exclusive = set(GPUS)
        self.held = {}
        self.queue = []
        self.stopped = set()

    def users(self, gpu):
        return [name for name, gpus in self.held.items() if gpu in gpus]

    def free(self, wish):
        return sum(not self.users(gpu) for gpu in wish.among)

    def choose(self, wish, left=frozenset(GPUS)):
        """Return the GPUs that a request gets now of those that are left to it, None where it has to wait."""
        obstacles = {gpu for gpu in self.exclusive if self.users(gpu)}
        if not wish.word:
            return None if obstacles & set(wish.among) or not left.issuperset(wish.among) else wish.among
        pool = [gpu for gpu in wish.among if gpu in left and not self.users(gpu)]
        if wish.word == "auto" and not pool:
            pool = [gpu for gpu in wish.among if gpu in left and gpu not in obstacles]
        # Of these eight MI210, four are in one hive and at one NUMA node.
        picks = [
            (sum(len(self.users(gpu)) for gpu in pick), len({gpu // 4 for gpu in pick}) > 1, pick)
            for pick in combinations(pool, wish.count)
        ]
        return min((pick for pick in picks if not (wish.in_one_hive and pick[1])), default=(0, False, None))[2]

    def before(self, request, waiter=None):
        """Return who stands in line for one of the same GPUs, before a waiter or before one who comes now."""
        queue = self.queue[: self.queue.index(waiter)] if waiter else self.queue
        among = set(WISHES[request].among)
        return [each for each in queue if each[0] not in self.stopped and among & set(WISHES[each[1]].among)]

    def left_for(self, request, waiter=None):
        """Return the GPUs for which nobody waits who comes before."""
        return set(GPUS) - {gpu for _, other in self.before(request, waiter) for gpu in WISHES[other].among}

    def needs_no_turn(self, request):
        """Return whether only shared GPUs are named, which are given to everybody."""
        wish = WISHES[request]
        return not wish.word and not self.exclusive & set(wish.among)

    def serve(self):
        """Serve whose turn it is as long as that is possible; yield who got what."""
        is_changed = True
        while is_changed:
            is_changed = False
            for waiter in list(self.queue):
                name, request = waiter
                gpus = self.choose(WISHES[request], self.left_for(request, waiter))
                if name not in self.stopped and gpus is not None:
                    self.queue.remove(waiter)
                    self.held[name] = gpus
                    is_changed = True
                    yield name, gpus

    def forget(self, name):
        self.held.pop(name, None)
        self.queue = [waiter for waiter in self.queue if waiter[0] != name]
        self.stopped.discard(name)


class Container:
    """A process that has GPUs without having waited in line, as a container's."""

    def __init__(self):
        self.pid = os.fork()
        if not self.pid:
            signal.pause()

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Drive:
    """Does the same with the model and with the tracker, and compares what came of it."""

    def __init__(self, host, job, seed):
        self.host = host
        self.job = job
        self.tracker = Tracker(host, rules=RULES)
        self.chance = random.Random(seed)
        self.model = Model()
        self.processes = {}
        self.count = 0
        self.history = []

    def step(self):
        """Do something, and compare."""
        actions = (self.submit,) * 6 + (self.end, self.kill) * 3 + (self.start_container,) * 2
        rare = (self.cancel, self.hold, self.give_up, self.stop, self.go_on, self.restart, self.change, self.repeat)
        action = self.chance.choice(actions + rare)
        self.history = [*self.history[-8:], action.__name__]
        action()
        for name, gpus in self.model.serve():
            self.require_line(name, f"got {gpus}")
        self.compare()

    def compare(self):
        """Assert that tracker and model agree about leases, tickets and accessibility."""
        status = self.tracker.status()
        said = {gpu.number: sorted(use.container_id for use in gpu.containers) for gpu in status.gpus}
        assert said == {gpu: sorted(self.model.users(gpu)) for gpu in GPUS}, " ".join(self.history)
        assert [ticket.name for ticket in self.tracker.waiting()] == [name for name, _ in self.model.queue], (
            self.history
        )
        exclusive = {gpu.number for gpu in status.gpus if gpu.accessibility == "exclusive"}
        assert exclusive == self.model.exclusive
        assert all(len(self.model.users(gpu)) <= 1 for gpu in exclusive)

    def require_line(self, name, expected):
        """Assert what a job says next, beside what it waits for."""
        assert self.next_line(name) == expected, " ".join(self.history)

    def next_line(self, name):
        while (said := self.processes[name].line()).startswith("waiting for "):
            pass
        return said

    def submit(self):
        if len(self.processes) < MOST_ALIVE:
            self.start_job(self.new_name(), self.chance.choice(list(WISHES)))

    def start_job(self, name, request):
        """Let a job wait, and know that it has its ticket."""
        wish, before, is_served = WISHES[request], len(self.model.before(request)), self.is_served(request)
        free, fitting = self.model.free(wish), len(wish.among)
        self.model.queue.append((name, request))
        self.processes[name] = self.job(name, request, rules=RULES)
        if not is_served:
            said = self.processes[name].line()
            assert said.startswith(f"waiting for {wish.count} GPU{'' if wish.count == 1 else 's'}: {free} free of ")
            # One that was killed counts until the one behind it has dropped its ticket.
            among, _, jobs = said.partition(" free of ")[2].partition(";")[0].partition(", ")
            assert among == {8: "8", 1: "1 that fits"}.get(fitting, f"{fitting} that fit")
            assert int(jobs.partition(" ")[0] or "0") >= before, " ".join(self.history)
        elif self.model.needs_no_turn(request):
            self.model.queue.remove((name, request))
            self.model.held[name] = wish.among
            self.require_line(name, f"got {wish.among}")

    def is_served(self, request):
        """Return whether one who comes now has GPUs at once."""
        if self.model.needs_no_turn(request):
            return True
        return self.model.choose(WISHES[request], self.model.left_for(request)) is not None

    def get_now(self, request):
        """Return the GPUs that one who comes now has at once."""
        if self.model.needs_no_turn(request):
            return self.model.choose(WISHES[request])
        return self.model.choose(WISHES[request], self.model.left_for(request))

    def repeat(self):
        """A name that is in use is refused, and its job or container keeps what it has."""
        if self.processes:
            name = self.chance.choice(list(self.processes))
            second = self.job(name, "free:1", rules=RULES)
            assert second.line().startswith("ContainerRunning: ")
            second.close()

    def end(self):
        held = [name for name in self.model.held if not isinstance(self.processes[name], Container)]
        if held:
            name = self.chance.choice(held)
            self.processes[name].end()
            self.remove(name)

    def kill(self):
        if self.processes:
            self.remove(self.chance.choice(list(self.processes)))

    def cancel(self):
        waiting = [name for name, _ in self.model.queue if name not in self.model.stopped]
        assert self.tracker.cancel("nobody") is False
        if waiting:
            name = self.chance.choice(waiting)
            assert self.tracker.cancel(name) is True
            self.require_line(name, f"WaitOver: the job {name} was removed from the queue")
            self.remove(name)

    def hold(self):
        """A job that does not wait is refused while others wait, and where there is no GPU for it."""
        request = self.chance.choice(list(WISHES))
        name = self.new_name()
        if not self.is_served(request):
            with pytest.raises(GpusRefused):
                self.tracker.reserve(request, name=name)
        else:
            self.tracker.reserve(request, name=name)
            self.model.held[name] = self.get_now(request)
            self.compare()
            self.tracker.release(name)
            self.model.forget(name)

    def give_up(self):
        request = self.chance.choice(list(WISHES))
        gpus = self.get_now(request) if self.is_served(request) else None
        name = self.new_name()
        self.processes[name] = self.job(name, request, rules=RULES, timeout=0)
        # A busy machine needs more than no time to find out.
        said = re.sub(r"within \d+ s$", "within 0 s", self.next_line(name))
        assert said == (f"WaitOver: there was no GPU for {name} within 0 s" if gpus is None else f"got {gpus}")
        self.remove(name)

    def stop(self):
        running = [name for name, _ in self.model.queue if name not in self.model.stopped]
        if running:
            name = self.chance.choice(running)
            self.processes[name].stop()
            self.model.stopped.add(name)

    def go_on(self):
        if self.model.stopped:
            name = self.chance.choice(sorted(self.model.stopped))
            self.processes[name].go_on()
            self.model.stopped.discard(name)
            self.processes[name].finish_poll()

    def start_container(self):
        if len(self.processes) < MOST_ALIVE:
            self.start_container_of(self.new_name())

    def start_container_of(self, name):
        """A container takes what is free, also while others wait; it never stands in the queue."""
        request = self.chance.choice(list(WISHES))
        gpus = self.model.choose(WISHES[request])
        container = Container()
        if gpus is None:
            with pytest.raises(GpusRefused):
                self.reserve_out_of_line(name, request, container.pid)
            container.close()
        else:
            assert self.reserve_out_of_line(name, request, container.pid) == gpus, " ".join(self.history)
            self.model.held[name] = gpus
            self.processes[name] = container

    def reserve_out_of_line(self, name, request, pid):
        """Reserve GPUs as a container does, without a look at the queue, and return their numbers."""
        return tuple(gpu.number for gpu in reserve_by_name(self.tracker.book, name, request, pid=pid, rules=RULES))

    def restart(self):
        """A container that starts again under its name chooses again; meanwhile its GPUs went to those who wait."""
        containers = [name for name, process in self.processes.items() if isinstance(process, Container)]
        if containers:
            name = self.chance.choice(containers)
            self.remove(name)
            for served, gpus in self.model.serve():
                self.require_line(served, f"got {gpus}")
            self.start_container_of(name)

    def change(self):
        gpus = self.chance.sample(GPUS, self.chance.randint(1, 4))
        exclusive = self.chance.random() < 0.7
        change = self.tracker.set_accessibility(",".join(map(str, gpus)), exclusive=exclusive)
        several = {gpu for gpu in gpus if exclusive and len(self.model.users(gpu)) > 1}
        assert (set(change.changed), set(change.in_use)) == (set(gpus) - several, several)
        changed = set(change.changed)
        self.model.exclusive = self.model.exclusive | changed if exclusive else self.model.exclusive - changed

    def remove(self, name):
        """End a process, by SIGKILL where it lives."""
        self.processes.pop(name).close()
        self.model.forget(name)

    def new_name(self):
        self.count += 1
        return f"j{self.count}"

    def close(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_gpus_go_to_whom_the_model_names(tmp_path, job, seed):
    host = build_host(tmp_path / "eight", "mi210-8", bare=True)
    enable(host, exclusive=True)
    drive = Drive(host, lambda *words, **options: job(*words, host=host, **options), seed)
    try:
        for _ in range(STEPS // 2):
            drive.step()
    finally:
        drive.close()
