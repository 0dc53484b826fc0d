"""A storm of random operations of two people, their rootless containers, root and its Docker, and a killed service.

`support/judge.py` looks at /proc meanwhile. `AMD_STORM_OPERATIONS=300 AMD_STORM_SEEDS='1 2 3'` makes longer storms.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from support import judge
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.story, pytest.mark.timeout(3600)]

OPERATIONS = int(os.environ.get("AMD_STORM_OPERATIONS", "60"))
SEEDS = [int(seed) for seed in os.environ.get("AMD_STORM_SEEDS", "1").split()]
PEOPLE = ("alice", "bob")
REQUESTS = ("free:1", "free:1", "free:2", "0", "1", "2-3", "auto:1")
PODMAN = "podman --runtime=/usr/bin/amd-container-runtime run --rm --network=none busybox:local"
# Of two looks, because what is seen of a process may end before another one is seen.
CERTAIN = (" holders", " leases")


@pytest.fixture(scope="module")
def lab(stand, image_archive):
    """Return a machine on which two people may have two GPUs each, with Docker and rootless Podman."""
    stand.write("/usr/local/lib/judge.py", Path(judge.__file__).read_text(encoding="utf-8"))
    for user in PEOPLE:
        stand.run(f"loginctl enable-linger {user}")
        stand.put_image(image_archive, user)
    stand.run("amd-ctk runtime configure --runtime=docker --restart; docker import /run/shared/image.tar busybox:local")
    stand.run("amd-ctk users allow everyone --gpus=2 --time=1h")
    return stand


class Storm:
    """Operations at random, and what was done so far."""

    def __init__(self, lab, seed):
        self.lab = lab
        self.chance = random.Random(seed)
        self.done = []
        self.commands = 0
        lab.run("rm -rf /run/storm; install --directory --mode=777 /run/storm")

    def do_one(self):
        weights = {
            self.run: 8,
            self.run_container: 4,
            self.reserve: 3,
            self.end: 3,
            self.start_in_docker: 3,
            self.kill_job: 3,
            self.drain: 1,
            self.kill_service: 2,
            self.restart_service: 1,
        }
        self.chance.choices(list(weights), list(weights.values()))[0]()

    def run(self):
        wait = self.chance.choice(("--wait", "--wait=20s", ""))
        self.begin(f"amd-ctk run --gpus={self.request()} {wait} --name={self.name()} -- sleep {self.seconds()}")

    def run_container(self):
        words = f"amd-ctk run --gpus={self.request()} --wait=20s --name={self.name()}"
        self.begin(f"{words} -- {PODMAN} sleep {self.seconds()}")

    def reserve(self):
        self.begin(f"amd-ctk reserve {self.request()} --for=1h --name={self.name()}")

    def end(self):
        self.begin(f"amd-ctk end n{self.chance.randint(1, self.commands + 1)}")

    def start_in_docker(self):
        words = f"docker run --detach --rm --runtime=amd --network=none -e AMD_VISIBLE_DEVICES={self.request()}"
        self.as_root(f"{words} busybox:local sleep {self.seconds()}")

    def kill_job(self):
        self.as_root(f"pkill -KILL --newest -u {self.chance.choice(PEOPLE)} {self.chance.choice(('sleep', 'amd-ctk'))}")

    def drain(self):
        gpu = self.chance.randrange(4)
        self.as_root(f"amd-ctk gpu-tracker drain {gpu}; sleep 1; amd-ctk gpu-tracker undrain {gpu}")

    def kill_service(self):
        self.as_root("systemctl kill --signal=KILL amd-gpu-tracker.service")

    def restart_service(self):
        self.as_root("systemctl restart amd-gpu-tracker.service")

    def begin(self, command):
        """Start a command of a person in the background; its end is in a file."""
        self.commands += 1
        user = self.chance.choice(PEOPLE)
        self.done.append(f"{user}: {command}")
        ended = f"/run/storm/{self.commands}"
        self.lab.as_user(user, f"sh -c '({command}; echo ended with $?) >{ended} 2>&1 &'")

    def as_root(self, command):
        self.done.append(command)
        self.lab.run(command, check=False)

    def request(self):
        return self.chance.choice(REQUESTS)

    def seconds(self):
        return self.chance.randint(1, 20)

    def name(self):
        return f"n{self.commands + 1}"

    def problems(self):
        """Return what the judge sees for certain: the same, twice."""
        first, second = ({*self.look()} for _ in range(2))
        return [each for each in first & second if any(word in each for word in CERTAIN)]

    def look(self):
        return self.lab.run("python3 /usr/local/lib/judge.py").splitlines()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gpu_is_in_two_hands_in_a_storm_and_all_are_free_after_it(lab, seed):
    storm = Storm(lab, seed)
    for number in range(OPERATIONS):
        storm.do_one()
        assert number % 5 or storm.problems() == [], storm.done

    wait_until(lambda: not end_all(lab))
    wait_until(lambda: len(lab.run("grep -l '^ended with' /run/storm/*").split()) == storm.commands)
    wait_until(lambda: lab.run("docker ps --quiet") == "")
    wait_until(lambda: not any(storm.look()))
    assert lab.run("amd-ctk run --gpus=all --wait=5m -- echo ran").splitlines()[-1] == "ran"


def end_all(lab):
    """End what people have and wait for; return whether there was anything."""
    listed = json.loads(lab.run("amd-ctk queue --json"))
    jobs = [*listed["running"], *listed["jobs"]]
    for job in jobs:
        lab.run(f"amd-ctk end {job['name']} --user={job['person']}", check=False)
    return jobs
