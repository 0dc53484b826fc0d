"""Jobs and their containers on one node, whose GPUs 0 to 3 are renderD130, 131, 129 and 128."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.box import USER
from support.documentation import read_page
from support.slurm_box import BUNDLE, SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

# Each job has its GPU for itself from the time when its container says which it is until the job ends.
ARRAY = f"""#!/bin/sh
gpu=$(srun --quiet --container={BUNDLE} /bin/list-gpus | grep -o 'renderD[0-9]*')
echo "$gpu" >>/box/array/given
mkdir "/box/array/$gpu" || echo "$gpu" >>/box/array/conflicts
sleep 0.3
rmdir "/box/array/$gpu"
"""

TASK_PROLOG = read_page("docs/how-to/slurm.md").partition("```text\n")[2].partition("```")[0]


def test_slurm_reads_the_gres_conf_that_amd_ctk_prints(node: SlurmBox) -> None:
    printed = node("slurmd", "-G")

    lines = [line for line in (printed.stdout + printed.stderr).splitlines() if "Gres Name=gpu" in line]
    files = [word for line in lines for word in line.split() if word.startswith("File=")]
    assert files == [f"File=/dev/dri/renderD{minor}" for minor in (130, 131, 129, 128)]
    assert all("Type=mi210" in line and "Links=" in line for line in lines)


def test_status_finds_what_slurm_was_told(node: SlurmBox) -> None:
    answer = node("amd-ctk", "slurm", "status", "--node=n1")

    assert [line.split()[:2] for line in answer.stdout.splitlines()[3:7]] == [[n, n] for n in "0123"]
    assert answer.stderr == "ConstrainDevices=yes is not in cgroup.conf, so jobs can open the GPUs of others\n"


def test_a_job_of_two_gpus_has_these_in_its_container(node: SlurmBox) -> None:
    assert gpus_in(node.srun("/bin/list-gpus", gpus=2).stdout) == ["renderD130", "renderD131"]


def test_all_means_those_of_the_job(node: SlurmBox) -> None:
    assert gpus_in(node.srun("/bin/list-gpus", gpus=2, ask="all").stdout) == ["renderD130", "renderD131"]


def test_a_container_may_have_fewer_than_its_job(node: SlurmBox) -> None:
    assert gpus_in(node.srun("/bin/list-gpus", gpus=2, ask="1").stdout) == ["renderD131"]
    assert gpus_in(node.srun("/bin/list-gpus", gpus=2, ask="none").stdout) == []


def test_a_gpu_that_the_job_does_not_have_is_refused(node: SlurmBox) -> None:
    answer = node.srun("/bin/list-gpus", gpus=2, ask="3")

    assert "AMD_VISIBLE_DEVICES=3: GPU 3 is not among the GPUs this process may use (0, 1)" in answer.stderr
    assert (gpus_in(answer.stdout), answer.returncode != 0) == ([], True)


def test_a_gpu_that_does_not_exist_is_refused(node: SlurmBox) -> None:
    assert "GPU 9 does not exist, this host has GPUs 0-3" in node.srun("/bin/list-gpus", gpus=2, ask="9").stderr


def test_a_job_without_gpus_gets_none(node: SlurmBox) -> None:
    assert gpus_in(node.srun("/bin/list-gpus", gpus=None).stdout) == []
    answer = node.srun("/bin/list-gpus", gpus=None, ask="0")
    assert "this Slurm job has no GPU that this process may use" in answer.stderr


def test_slurms_own_filter_does_not_filter_a_second_time(node: SlurmBox) -> None:
    outside = node("srun", "--quiet", "--gres=gpu:2", "/usr/bin/env").stdout.splitlines()
    inside = node.srun("/bin/env", gpus=2).stdout.splitlines()

    assert "ROCR_VISIBLE_DEVICES=0,1" in outside
    assert f"SLURM_{'STEP' if node.reports_steps else 'JOB'}_GPUS=0,1" in inside
    assert [line for line in inside if "VISIBLE_DEVICES" in line] == []


def test_the_task_prolog_of_the_guide_lets_hip_count_the_gpus_of_the_job(
    make_node: Callable[..., SlurmBox],
) -> None:
    node = make_node("trixie")
    node.configure(node.gres)
    node.write("/etc/slurm/task-prolog", TASK_PROLOG.encode())
    node("chmod", "755", "/etc/slurm/task-prolog")
    node("sh", "-c", "echo TaskProlog=/etc/slurm/task-prolog >>/etc/slurm/slurm.conf")
    node.start_slurm()
    node.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")

    def filters(*words: str) -> list[str]:
        printed = node("srun", "--quiet", *words, "/usr/bin/env").stdout.splitlines()
        return sorted(line for line in printed if "VISIBLE_DEVICES" in line)

    assert filters("--gres=gpu:3") == ["HIP_VISIBLE_DEVICES=0,1,2", "ROCR_VISIBLE_DEVICES=0,1,2"]
    assert filters("--gres=gpu:1") == ["HIP_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=0"]
    assert filters() == []
    inside = node.srun("/bin/env", gpus=2).stdout.splitlines()
    assert [line for line in inside if "VISIBLE_DEVICES" in line] == []


def test_tasks_of_a_step_have_a_gpu_each(node: SlurmBox) -> None:
    if not node.reports_steps:
        pytest.skip("Slurm 22.05 tells containers the GPUs of their job only")
    answer = node.srun("--ntasks=4", "--gpus-per-task=1", "/bin/list-gpus", gpus=4)

    assert gpus_in(answer.stdout) == ["renderD128", "renderD129", "renderD130", "renderD131"]


def test_a_user_without_privileges_has_the_gpus_of_the_job(node: SlurmBox) -> None:
    if not node.reports_steps:
        pytest.skip("Slurm 22.05 keeps the config.json of a user's container where only root can write it")
    answer = node.srun("/bin/list-gpus", gpus=2, user=USER)

    assert (gpus_in(answer.stdout), answer.returncode) == (["renderD130", "renderD131"], 0)


def test_two_jobs_at_once_have_different_gpus(node: SlurmBox) -> None:
    # In the root of both containers.
    both_run = node.share / "bundle/rootfs/both-run"
    wait = "list-gpus; until [ -e /both-run ]; do sleep 0.1; done"

    def run(_: int) -> list[str]:
        return gpus_in(node.srun("/bin/sh", "-c", wait, gpus=2).stdout)

    with ThreadPoolExecutor() as pool:
        given = pool.map(run, range(2))
        try:
            node.wait_until("sh", "-c", "[ $(squeue --noheader --states=running | wc -l) = 2 ]")
        finally:
            both_run.touch()
        first, second = given
    both_run.unlink()

    assert sorted([first, second]) == [["renderD128", "renderD129"], ["renderD130", "renderD131"]]


def test_an_array_of_forty_jobs_never_shares_one_of_four_gpus(node: SlurmBox) -> None:
    (node.share / "array").mkdir()
    (node.share / "array.sh").write_text(ARRAY)

    node("sbatch", "--wait", "--quiet", "--array=1-40", "--gres=gpu:1", "--output=/box/array/%a.out", "/box/array.sh")

    given = (node.share / "array/given").read_text().split()
    assert len(given) == 40
    assert set(given) == {"renderD128", "renderD129", "renderD130", "renderD131"}
    assert not (node.share / "array/conflicts").exists()


@pytest.fixture
def start_in_job(node: SlurmBox) -> Iterator[Callable[..., str]]:
    """Return a function that starts a container that sleeps in a job of one GPU, and returns its first process."""

    def start(step: str, seconds: int) -> str:
        node("sbatch", "--quiet", "--gres=gpu:1", "--chdir=/", f"--wrap={step}")
        words = ("pgrep", "--full", "--exact", f"/bin/sleep {seconds}")
        node.wait_until(*words)
        return node(*words).stdout.split()[0]

    yield start
    node("scancel", "--user=root")
    # The first process of a pid namespace takes no other signal.
    node("pkill", "--signal=KILL", "--full", "--exact", "/bin/sleep 47[0-9]*", check=False)
    node.wait_until("sh", "-c", '[ -z "$(squeue --noheader)" ]')


def what_doctor_says_of_its_job(node: SlurmBox, pid: str) -> list[tuple[str, str]]:
    """Return the state and the words of the check that compares a container with its job."""
    answer = node("amd-ctk", "doctor", "--json", "--only=inside-slurm", f"--container={pid}", check=False)
    assert "Traceback" not in answer.stderr
    return [(check["state"], check["words"]) for check in json.loads(answer.stdout)["checks"]]


def test_doctor_finds_a_container_with_the_gpus_of_its_job(node: SlurmBox, start_in_job: Callable[..., str]) -> None:
    pid = start_in_job(f"srun --quiet --container={BUNDLE} /bin/sleep 4711", 4711)

    assert what_doctor_says_of_its_job(node, pid) == [("ok", f"container {pid} has the GPUs of its job")]


def test_doctor_finds_a_container_with_another_gpu_than_its_job(
    node: SlurmBox, start_in_job: Callable[..., str]
) -> None:
    # Another runtime, which hands no variable of Slurm to its container.
    other = node.share / "other"
    node("cp", "--recursive", BUNDLE, "/box/other")
    spec = json.loads((other / "config.json").read_text())
    device = {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128, "fileMode": 0o666}
    spec["linux"] |= {"devices": [device], "resources": {"devices": [{"allow": True, "access": "rwm"}]}}
    spec["process"] |= {"args": ["/bin/sleep", "4712"], "env": ["PATH=/bin"]}
    (other / "config.json").write_text(json.dumps(spec))

    pid = start_in_job("runc run --bundle /box/other other", 4712)

    words = f"Slurm gave the job GPU 0, but container {pid} may not open it"
    assert what_doctor_says_of_its_job(node, pid) == [("bad", words)]
