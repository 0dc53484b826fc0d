"""Ray on one host, as a cluster of two reservations, and in the environment of a Slurm job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster_stand import IDS, ClusterStand
from support.clusters_page import blocks_of, commands_in
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.clusters]

# Counts the GPUs, and runs as many tasks at once. Each says which GPU it has: HIP counts what ROCr left.
TRAIN = """\
import json, os, sys, time
import ray

wanted = int(sys.argv[1])
ray.init(address=sys.argv[2], log_to_driver=False)
while ray.cluster_resources().get("GPU", 0) < wanted:
    time.sleep(0.2)


@ray.remote(num_gpus=1, num_cpus=0)
def task():
    time.sleep(5)
    [position] = os.environ["HIP_VISIBLE_DEVICES"].split(",")
    return os.environ["ROCR_VISIBLE_DEVICES"].split(",")[int(position)], os.getpid()


answers = ray.get([task.remote() for _ in range(wanted)])
print(json.dumps({"gpus": ray.cluster_resources()["GPU"], "answers": answers}))
"""
WITHOUT_HIP = "Please use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES"
JOB_OF_SLURM = "SLURM_JOB_ID=7 SLURM_JOB_GPUS=2,3 ROCR_VISIBLE_DEVICES=2,3"


@pytest.fixture(autouse=True)
def program(stand: ClusterStand) -> None:
    """Put the program into the home of alice."""
    stand.write("/home/alice/train.py", TRAIN)


def last_line(text: str) -> Any:
    """Return what the program printed, behind what Ray says."""
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def test_a_program_on_one_host_has_the_gpus_of_its_reservation(stand: ClusterStand) -> None:
    [command] = commands_in(blocks_of("I use Ray")[0])

    said = last_line(stand.as_user("alice", f"{command} 2 local"))

    assert said["gpus"] == 2
    assert {gpu for gpu, _ in said["answers"]} == set(IDS[:2])
    assert len({pid for _, pid in said["answers"]}) == 2
    wait_until(lambda: not stand.gpus_by_person())


def test_two_reservations_join_one_cluster_and_others_get_what_is_left(stand: ClusterStand) -> None:
    mode, token, head, worker = commands_in(blocks_of("I use Ray")[1])
    stand.as_user("alice", f"sh -c '{mode}; {token}'")
    stand.start("alice", f"{mode}; exec {head}", "head.log")
    wait_until(lambda: "Ray runtime started" in stand.read("/home/alice/head.log"))
    stand.start("alice", f"{mode}; exec {worker.replace('HOST', '127.0.0.1')}", "worker.log")

    said = last_line(stand.as_user("alice", "env RAY_AUTH_MODE=token python3 train.py 3 127.0.0.1:6379"))

    assert said["gpus"] == 3
    assert {gpu for gpu, _ in said["answers"]} == set(IDS[:3])
    assert stand.gpus_by_person() == {"alice": [0, 1, 2]}
    # Ray hides every GPU from processes of its own that need none.
    assert set(stand.ids_in_processes().values()) - {""} == {",".join(IDS[:2]), IDS[2]}

    refused = stand.as_user("bob", "amd-ctk run --gpus=free:2 -- true", check=False)
    stand.start("carol", "exec amd-ctk run --gpus=free:2 --wait --name=next -- printenv AMD_VISIBLE_DEVICES", "log")
    wait_until(lambda: "waiting for 2 GPUs" in stand.read("/home/carol/log"))

    assert "free:2: 1 of 4 GPUs is free (0, 1 exclusive and in use by ray-" in refused
    assert "'amd-ctk run --gpus=free:2 --wait -- COMMAND' waits for one" in refused

    # As the page says: this leaves `ray start --block`, and with it the GPUs.
    stand.as_user("alice", "ray stop")
    assert stand.gpus_by_person() == {"alice": [0, 1, 2]}

    stand.run("pkill -U alice -f 'ray start'")
    wait_until(lambda: not stand.gpus_by_person())
    assert stand.read("/home/carol/log").splitlines()[-1] in ("0,1", "0,3", "2,3")


def test_in_a_job_of_slurm_the_task_prolog_lets_ray_start(stand: ClusterStand) -> None:
    stand.write("/etc/slurm/task-prolog", blocks_of("Run containers", "docs/how-to/slurm.md")[2])
    prolog = stand.run(f"{JOB_OF_SLURM} sh /etc/slurm/task-prolog").strip()

    without = stand.as_user("alice", f"env {JOB_OF_SLURM} python3 train.py 2 local", check=False)
    said = last_line(stand.as_user("alice", f"env {JOB_OF_SLURM} sh -c '{prolog}; python3 train.py 2 local'"))

    assert WITHOUT_HIP in without
    assert prolog == "export HIP_VISIBLE_DEVICES=0,1"
    assert (said["gpus"], sorted(gpu for gpu, _ in said["answers"])) == (2, ["2", "3"])


def test_ray_counts_the_gpus_of_a_simulated_server(stand: ClusterStand) -> None:
    manager = "from ray._private.accelerators import AMDGPUAcceleratorManager as gpus"
    command = f"python3 -c '{manager}; print(gpus.get_current_node_num_accelerators())'"

    assert stand.as_user("alice", command).splitlines()[-1] == "4"
    assert stand.as_user("alice", f"amd-ctk simulate run mi210-8 -- {command}").splitlines()[-1] == "8"
