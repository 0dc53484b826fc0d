"""Jobs that Slurm ends: their containers end too, though `sleep` as a first process ignores TERM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from support.box import USER
from support.slurm_box import BUNDLE, BUNDLE_OF_USER, SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

SUITES = ("bookworm", "trixie", "forky")
# How Slurm finds the processes of a job; cgroups of root's containers are below that of the job.
TRACKING = ("linuxproc", "cgroup")
# A second is less than KillWait.
SAVES = "trap 'sleep 1; echo saved; exit' TERM; sleep 4721 & wait"


@pytest.fixture(scope="module", params=[f"{suite}-{tracking}" for suite in SUITES for tracking in TRACKING])
def node(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox]) -> SlurmBox:
    """Return a cluster of one node with four MI210."""
    suite, _, tracking = request.param.partition("-")
    box = make_node(suite)
    box.configure(box.gres, tracking=tracking)
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")
    return box


@pytest.fixture
def exclusive(node: SlurmBox) -> Iterator[None]:
    """Make each GPU one for one container at a time."""
    node("amd-ctk", "gpu-tracker", "enable")
    node("amd-ctk", "gpu-tracker", "all", "exclusive")
    yield
    node("amd-ctk", "gpu-tracker", "disable")


def start(node: SlurmBox, step: str, *, tasks: int = 1, user: str = "") -> None:
    """Start a container for each task in a job of four GPUs, and wait until they run."""
    options = ("--quiet", "--chdir=/tmp", "--output=/dev/null", "--gres=gpu:4", f"--ntasks={tasks}")
    bundle = BUNDLE_OF_USER if user else BUNDLE
    # With %t in its name the file is not written by srun, which ends before the container.
    node("sbatch", *options, f"--wrap=srun --quiet --output=/tmp/%u.%t --container={bundle} {step}", user=user)
    node.wait_until("sh", "-c", f"[ $(pgrep --count --full '^(/bin/)?sleep 47') = {tasks} ]")


def wait_for_the_end(node: SlurmBox) -> None:
    """Wait until no job is left, and no container; EngineError where that does not come."""
    node.wait_until("sh", "-c", '[ -z "$(squeue --noheader)" ]')
    node.wait_until("sh", "-c", "! pgrep --full '^(/bin/)?sleep 47'")


@pytest.mark.usefixtures("exclusive")
def test_a_cancelled_job_leaves_its_gpus_to_the_next_one(node: SlurmBox) -> None:
    start(node, "/bin/sleep 4711")

    node("scancel", "--user=root")

    wait_for_the_end(node)
    assert len(gpus_in(node.srun("/bin/list-gpus", gpus=4).stdout)) == 4


def test_a_cancelled_job_of_two_tasks_leaves_no_container(node: SlurmBox) -> None:
    if not node.reports_steps:
        pytest.skip("Slurm 22.05 starts one container on a node for a step")
    start(node, "/bin/sleep 4714", tasks=2)

    node("scancel", "--user=root")

    wait_for_the_end(node)


def test_a_cancelled_job_of_a_user_leaves_no_container(node: SlurmBox) -> None:
    if not node.reports_steps:
        pytest.skip("Slurm 22.05 keeps the config.json of a user's container where only root can write it")
    start(node, "/bin/sleep 4712", tasks=2, user=USER)

    node("scancel", f"--user={USER}")

    wait_for_the_end(node)


def test_a_job_whose_time_is_over_leaves_no_container(node: SlurmBox) -> None:
    start(node, "/bin/sleep 4713")

    node("sh", "-c", "scontrol update JobId=$(squeue --noheader --format=%A) EndTime=now+5")

    wait_for_the_end(node)


def test_a_container_that_handles_term_has_the_time_to_save_its_work(node: SlurmBox) -> None:
    start(node, f'/bin/sh -c "{SAVES}"')

    node("scancel", "--user=root")

    wait_for_the_end(node)
    assert "saved" in node("cat", "/tmp/root.0").stdout


def jobs_by_doctor(node: SlurmBox) -> dict[str, str]:
    """Return what doctor finds about containers and their jobs."""
    answer = node("amd-ctk", "doctor", "--json", "--only=slurm-jobs", check=False)
    finding: dict[str, str] = json.loads(answer.stdout)["checks"][0]
    return finding


def test_doctor_names_a_container_whose_job_is_over_and_how_to_end_it(node: SlurmBox) -> None:
    start(node, "/bin/sleep 4715")
    assert jobs_by_doctor(node)["state"] == "ok"
    node("scancel", "--user=root")
    wait_for_the_end(node)
    # One that nobody ends: it was started beside Slurm.
    node("cp", "--recursive", BUNDLE, "/tmp/left")
    spec = json.loads(node("cat", "/tmp/left/config.json").stdout)
    spec["process"] |= {"args": ["/bin/sleep", "4716"], "env": ["PATH=/bin", "SLURM_JOB_ID=4000"]}
    node.write("/tmp/left/config.json", json.dumps(spec).encode())
    node.start("runc", "run", "--bundle", "/tmp/left", "left")
    node.wait_until("pgrep", "--full", "--exact", "/bin/sleep 4716")
    pid = node("pgrep", "--full", "--exact", "/bin/sleep 4716").stdout.strip()

    found = jobs_by_doctor(node)

    words = f"a container of job 4000 (process {pid}) is still running, but its job is over"
    assert (found["state"], found["words"], found["fix"]) == ("bad", words, f"sudo kill -KILL {pid}")
    node(*found["fix"].split()[1:])
    wait_for_the_end(node)
    assert jobs_by_doctor(node)["state"] == "ok"
