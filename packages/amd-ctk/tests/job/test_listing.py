"""Lists of jobs as amd-ctk prints them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from amd_gpu_tracker import RunningJob
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.watch.history.ended import Ended, note_ended

NOW = 1_000_000.0
TRAIN = RunningJob(name="train", person=0, gpus=(0, 1), since=NOW - 125, pid=48213)
DEBUG = RunningJob(
    name="debug", person=0, gpus=(4,), since=NOW - 60, containers=("9f2c1d0a3b4c5d6e",), until=NOW + 3600
)


def test_the_list_of_jobs_takes_over_what_amds_toolkit_left(host, amd_ctk):
    made = host("mi210-4")
    uuids = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")
    gpus = {
        str(number): {"uuid": uuid, "partitionType": "", "accessibility": 0, "containerIds": []}
        for number, uuid in enumerate(uuids)
    }
    left = Path(made.path("/var/log/gpu-tracker.json"))
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_text(json.dumps({"enabled": True, "gpusStatus": gpus, "gpusInfo": {}}))

    answer = amd_ctk("queue", "list")

    assert (answer.returncode, answer.stdout) == (0, "No job waits for GPUs\n")
    assert Path(made.path("/var/lib/amd-container-toolkit/gpu-tracker.json")).exists()


def test_reserve_with_only_a_number_says_that_it_is_a_gpu_number(host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("reserve", "2", "--for=2h")

    assert answer.stderr.splitlines() == [
        "2 is GPU number 2; for 2 free GPUs write free:2",
        "users cannot reserve GPUs on this host (the administrator enables it with 'sudo amd-ctk users allow NAME')",
    ]


def test_where_rules_allow_users_only_the_service_is_advised(host, amd_ctk):
    made = host("mi210-4")
    amd_ctk("users", "allow", "everyone", "--gpus=2")

    answer = amd_ctk("reserve", "free:1", "--for=2h")

    command = f"amd-ctk gpu-tracker serve --listen {made.path('/run/amd-container-toolkit/gpus.socket')}"
    problem = "users cannot reserve GPUs on this host"
    assert (answer.returncode, answer.stderr) == (3, f"{problem} (the administrator enables it with '{command}')\n")


def test_a_new_reservation_names_the_own_ones_that_a_restart_ended(host, amd_ctk):
    state = State(host("mi210-4"))
    state.prepare()
    until = time.time() + 3600
    note_ended(
        state, [Ended(job="debug", person=os.geteuid(), until=until), Ended(job="7/eval", person=7, until=until)]
    )

    answer = amd_ctk("reserve", "free:1", "--for=4h")

    assert answer.returncode == 3
    assert answer.stderr.splitlines() == [
        "The restart of this machine ended the reservation debug",
        "users cannot reserve GPUs on this host (the administrator enables it with 'sudo amd-ctk users allow NAME')",
    ]
