"""Jobs of Slurm under a real kernel: ConstrainDevices=yes with cgroup version 2 alone, which takes a device filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernel.conftest import KFD_NODES
from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND, run_bundle
from kernel.limits import LIMITED_HOST, OPEN_BOTH
from kernel.machine import Machine
from support.slurm_box import ADDRESS, SLURM_CONF, node_line

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

CGROUP_CONF = "CgroupPlugin=cgroup/v2\nConstrainDevices=yes\n"
# The service of Debian's controller runs as this user.
CONF = SLURM_CONF.replace("SlurmUser=root", "SlurmUser=slurm")
START = f"""
hostname n1
ip address add {ADDRESS.format(1)}/32 dev lo
install -d -o slurm /run/slurm-test /run/slurm-test/ctld
systemctl restart munge
systemctl restart slurmctld slurmd
for i in $(seq 60); do srun --quiet --gres=gpu:2 --immediate=5 true && exit; sleep 1; done
journalctl --no-pager --unit=slurmctld --unit=slurmd; exit 1
"""
# Slurm gives the first GPUs first.
TAKE_FIRST = """
sbatch --quiet --gres=gpu:1 --output=/dev/null --wrap='sleep infinity'
for i in $(seq 60); do squeue --noheader --states=running | grep -q . && exit; sleep 1; done; exit 1
"""
STOP = f"""
scancel --full --quiet --user=root
systemctl stop slurmd slurmctld munge
ip address del {ADDRESS.format(1)}/32 dev lo
hostname gpu-server
"""
ON_LIMITED_HOST = f"AMD_CTK_HOST_ROOT={LIMITED_HOST}"
# The file of GPU 0 is one on which a read waits for whoever may open the node.
PREPARE = f"""
cd {LIMITED_HOST}{KFD_NODES}
for hidden in */properties; do [ -c $hidden ] && break; done
mount --bind /srv/host{KFD_NODES}/$hidden $hidden
{ON_LIMITED_HOST} amd-ctk gpu-tracker enable
umount $hidden
mkdir -p {LIMITED_HOST}/etc/slurm && cp /etc/slurm/gres.conf {LIMITED_HOST}/etc/slurm
"""
IN_JOB = "srun --quiet --gres=gpu:1"


@pytest.fixture(scope="module", autouse=True)
def cluster(machine: Machine) -> Iterator[None]:
    """Let Slurm of the release have the two GPUs, and a job of its the first one."""
    gres = machine.run(f"{ON_SIMULATED_HOST} amd-ctk slurm gres --node=n1")
    files = {
        "slurm.conf": CONF.format(task_plugin="task/cgroup", tracking="cgroup", nodes=node_line(gres, 1)),
        "gres.conf": gres,
        "cgroup.conf": CGROUP_CONF,
    }
    for name, text in files.items():
        machine.run(f"mkdir -p /etc/slurm && cat >/etc/slurm/{name} <<'END'\n{text}END")
    machine.run(PREPARE)
    machine.run(START)
    machine.run(TAKE_FIRST)
    yield
    machine.run(STOP)


def test_a_job_opens_its_gpu_and_is_refused_the_one_of_another_job(machine):
    assert machine.run(f"{IN_JOB} {OPEN_BOTH}") == f"{FIRST} Operation not permitted\n{SECOND} opens\n"


def test_a_job_is_shown_its_gpu_under_the_number_of_the_host(machine):
    said = machine.run(f"{ON_LIMITED_HOST} {IN_JOB} amd-ctk gpu list")

    assert [line.split() for line in said.splitlines() if "/dev/dri" in line] == [
        ["1", "0x89CAA15875FF5A43", SECOND],
    ]
    assert "GPU 0 is hidden from this process by its device cgroup\n" in said


def test_amd_ctk_run_gives_a_job_its_gpu_and_refuses_the_one_of_another_job(machine):
    free = machine.run(f"{ON_LIMITED_HOST} {IN_JOB} amd-ctk run --gpus=free:1 -- {OPEN_BOTH}")
    code, refused = machine.ask(f"{ON_LIMITED_HOST} {IN_JOB} amd-ctk run --gpus=0 -- true")

    assert free == f"GPU 1\n{FIRST} Operation not permitted\n{SECOND} opens\n"
    assert code != 0
    assert "GPU 0 is not among the GPUs this process may use (1)" in refused


@pytest.mark.parametrize("low_level", ["runc", "crun"])
def test_a_container_of_a_job_has_its_gpu(machine, low_level):
    command = ["sh", "-c", f"ls /dev/dri; open-nodes {SECOND}; open-numbers 226:128"]

    seen = run_bundle(machine, low_level, "all", command, host=LIMITED_HOST, under=IN_JOB)

    assert seen == f"card1\nrenderD129\n{SECOND} opens\n226:128 Operation not permitted\n"
