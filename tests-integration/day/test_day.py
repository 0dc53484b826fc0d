"""A day of a host: random operations on two engines and jobs, after each of which no exclusive GPU has two holders.

`nox -s day` plays 20 days of 100 operations; `AMD_DAY_SEED=7 nox -s day` plays one of them again.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from day.world import EXCLUSIVE, World, wait_until
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.seen import parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

SEEDS = (
    [int(os.environ["AMD_DAY_SEED"])] if "AMD_DAY_SEED" in os.environ else range(int(os.environ.get("AMD_DAYS", "1")))
)
OPERATIONS = int(os.environ.get("AMD_DAY_OPERATIONS", "30"))
# What is asked for, and the GPUs that this is; of a choice it is a number of them.
REQUESTS = {
    **{str(number): {number} for number in range(8)},
    "2-3": {2, 3},
    "0,5": {0, 5},
    "all": set(range(8)),
    "none": set(),
    **{choice: set[int]() for choice in ("free:1", "free:2", "auto:1", "auto:2")},
}
EXHAUSTS_MEMORY = ("sh", "-c", "tail /dev/zero")


@pytest.fixture
def world(tmp_path, start_docker, image_archive):
    require_root()
    engine_program("runc")
    host = build_host(tmp_path / "host", "mi210-8")
    docker = start_docker(host.root, **{"live-restore": True})
    podman = Podman(engine_program("podman"), tmp_path, our_program("amd-container-runtime"), host.root)
    podman.import_image(image_archive)
    world = World(host, docker, podman)
    yield world
    world.remove_all()


class Day:
    """What is done on a day, and what is known of it: the containers that were made, and the operations so far."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.said: list[str] = []
        self.engine_of: dict[str, object] = {}
        # A container keeps its mark when it is renamed.
        self.mark_of: dict[str, str] = {}
        self.request_of: dict[str, str] = {}
        self.made = 0

    def do_one(self) -> None:
        """Do something at random."""
        operations: dict[Callable[[], object], int] = {
            self.start: 8,
            self.start_job: 4,
            self.end_job: 2,
            self.run_out_of_memory: 1,
            self.kill_docker: 1,
            **dict.fromkeys((self.kill, self.stop, self.restart, self.pause, self.rename, self.remove), 2),
        }
        operation = self.chance.choices(list(operations), list(operations.values()))[0]
        operation()

    def note(self, *words: object) -> None:
        self.said.append(" ".join(map(str, words)))

    def start(self) -> None:
        engine = self.chance.choice((self.world.docker, self.world.podman))
        restart = self.chance.choice(("no", "no", "always", "on-failure"))
        name, request = self._new_name("c"), self.chance.choice(list(REQUESTS))
        given = self.world.run(engine, name, request, f"--restart={restart}")
        self.note("start", name, type(engine).__name__, request, restart, "given" if given else "refused")
        if given:
            self.engine_of[name], self.mark_of[name], self.request_of[name] = engine, name, request

    def run_out_of_memory(self) -> None:
        name = self._new_name("m")
        self.world.docker(
            "run",
            "--detach",
            f"--name={name}",
            "--runtime=amd",
            "--memory=8m",
            f"--env=DAY_ID={name}",
            "--env=AMD_VISIBLE_DEVICES=free:1",
            "busybox:local",
            *EXHAUSTS_MEMORY,
            check=False,
        )
        self.note("run out of memory", name)
        self.world.docker("wait", name, check=False)
        self.world.docker("rm", "--force", name, check=False)

    def start_job(self) -> None:
        name, request = self._new_name("j"), self.chance.choice(("free:1", "free:2", "0", "auto:1"))
        self.note("job", name, request)
        self.world.start_job(name, request)

    def end_job(self) -> None:
        if self.world.jobs:
            name, number = (
                self.chance.choice(sorted(self.world.jobs)),
                self.chance.choice((signal.SIGKILL, signal.SIGTERM)),
            )
            self.note("end job", name, number.name)
            self.world.end_job(name, number)

    def kill(self) -> None:
        if (name := self._one()) and (pid := self.world.first_process(self.mark_of[name])):
            self.note("kill", name)
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        self._tell("stop", "--time=1")

    def restart(self) -> None:
        self._tell("restart", "--time=1")

    def pause(self) -> None:
        self._tell("pause")
        self._tell_again("unpause")

    def rename(self) -> None:
        if name := self._one():
            new = self._new_name("r")
            self.note("rename", name, new)
            if self.engine_of[name]("rename", name, new, check=False).returncode == 0:
                self.engine_of[new], self.mark_of[new] = self.engine_of.pop(name), self.mark_of.pop(name)

    def remove(self) -> None:
        if name := self._one():
            self._tell_one(name, "rm", "--force")
            del self.engine_of[name]

    def kill_docker(self) -> None:
        self.note("kill docker")
        self.world.kill_docker()

    def _tell(self, *words: str) -> None:
        if name := self._one():
            self._tell_one(name, *words)

    def _tell_again(self, word: str) -> None:
        name = self.said[-1].split()[-1] if self.said else ""
        if name in self.engine_of:
            self._tell_one(name, word)

    def _tell_one(self, name: str, *words: str) -> None:
        self.note(*words, name)
        # A container that is stopped cannot be paused, and one whose GPU somebody else has by now does not start.
        self.engine_of[name](*words, name, check=False)

    def _one(self) -> str:
        return self.chance.choice(sorted(self.engine_of)) if self.engine_of else ""

    def _new_name(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{os.getpid()}-{self.made}"


def fits(request: str, gpus: set[int]) -> bool:
    """Return whether these GPUs are what was asked for."""
    if ":" in request:
        return len(gpus) == int(request.partition(":")[2])
    return gpus == REQUESTS[request]


def what_is_wrong(day: Day) -> dict[str, set[int]]:
    """Return the holders of exclusive GPUs that somebody else holds, too, and those that have other GPUs than asked."""
    holders = day.world.holders()
    held = Counter(gpu for gpus in holders.values() for gpu in gpus)
    return {
        name: gpus
        for name, gpus in holders.items()
        if any(held[gpu] > 1 for gpu in gpus if gpu in EXCLUSIVE)
        or (name in day.request_of and not fits(day.request_of[name], gpus))
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_all_requests_of_a_day_are_served_and_all_gpus_are_free_at_its_end(world, seed):
    day = Day(world, seed)
    for _ in range(OPERATIONS):
        day.do_one()
        assert what_is_wrong(day) == {}, day.said

    world.remove_all()

    wait_until(lambda: not world.holders(), "all processes end")
    # A container that its engine would start again keeps its GPUs for a moment.
    wait_until(lambda: [gpu.containers for gpu in Tracker(world.host).status().gpus] == [()] * 8, "all GPUs are free")
    for gpu in range(8):
        assert world.run(world.docker, f"last-{gpu}", str(gpu)), day.said
    last = {f"last-{gpu}": {gpu} for gpu in range(8)}
    # The kernel does not show the environment of a process that it is just executing.
    wait_until(lambda: world.holders() == last, "each container has its GPU")
    inside = parse_seen(world.docker("exec", "last-3", "list-gpus").stdout)
    other = parse_seen(world.docker("exec", "last-3", "try-numbers", f"226:{world.minor_of(4)}").stdout)
    assert {node.access for node in inside} == {"opens"}
    assert {node.access for node in other} == {"refused-by-cgroup"}
