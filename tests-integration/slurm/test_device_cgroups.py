"""Jobs that Slurm limits by a real device cgroup. It decides about files that stand for those of KFD too."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from support.box import USER
from support.slurm_box import BUNDLE_OF_USER, SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

HIERARCHY = Path("/sys/fs/cgroup/devices")
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def hide_first_two(host: Host) -> None:
    """Give GPUs 0 and 1 nodes of KFD that only those may read who may use the GPU; these get ENXIO."""
    for gpu in locate_gpus(host)[:2]:
        path = host.path(f"{NODES}/{gpu.kfd_node}/properties")
        os.unlink(path)
        os.mknod(path, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))


@pytest.fixture(scope="module", params=["trixie"])
def second_job(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox]) -> Iterator[SlurmBox]:
    """Return a node on which a job has GPUs 0 and 1, so that every other one has 2 and 3."""
    if not (HIERARCHY / "devices.list").exists():
        pytest.skip(f"{HIERARCHY} is not there: Slurm limits devices by programs for the kernel, which needs systemd")
    box = make_node(request.param, hide=hide_first_two)
    box.configure(box.gres, device_cgroups=True)
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")
    box("sbatch", "--quiet", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 600")
    box.wait_until("sh", "-c", "squeue --noheader --states=running | grep -q .")
    return box


def test_under_constraindevices_a_container_has_the_gpus_of_its_job(second_job: SlurmBox) -> None:
    for ask in (None, "all", "2-3"):
        answer = second_job.srun("/bin/list-gpus", gpus=2, ask=ask, user=USER)

        assert (gpus_in(answer.stdout), answer.returncode) == (["renderD128", "renderD129"], 0)


def test_under_constraindevices_a_hidden_gpu_is_refused(second_job: SlurmBox) -> None:
    answer = second_job.srun("/bin/list-gpus", gpus=2, ask="0", user=USER)

    assert "GPU 0 is not among the GPUs this process may use (2, 3)" in answer.stderr
    assert gpus_in(answer.stdout) == []


def test_under_constraindevices_forged_variables_give_nothing(second_job: SlurmBox) -> None:
    """A user may write any environment into a bundle; the device cgroup is the limit."""
    spec = json.loads((second_job.share / "bundle-of-user/config.json").read_text())
    spec["process"]["args"] = ["/bin/list-gpus"]
    spec["process"]["env"] += ["SLURMD_NODENAME=n1", "SLURM_STEP_GPUS=0,1,2"]
    spec["root"]["path"] = f"{BUNDLE_OF_USER}/rootfs"
    (second_job.share / "forged").mkdir()
    (second_job.share / "forged/config.json").write_text(json.dumps(spec))
    second_job("chown", "-R", f"{USER}:", "/box/forged")
    forged = "cd /box/forged && exec amd-container-runtime --root=/run/user/1100 run forged"

    answer = second_job("srun", "--quiet", "--gres=gpu:2", "/bin/sh", "-c", forged, user=USER)

    assert gpus_in(answer.stdout) == ["renderD129"]


def test_under_constraindevices_numbers_are_the_hosts(second_job: SlurmBox) -> None:
    answer = second_job("srun", "--quiet", "--gres=gpu:2", "/usr/bin/amd-ctk", "gpu", "list")

    assert [line.split()[::2] for line in answer.stdout.splitlines()[4:]] == [
        ["2", "/dev/dri/renderD129"],
        ["3", "/dev/dri/renderD128"],
    ]
    assert answer.stderr == "GPUs 0, 1 are hidden from this process by its device cgroup\n"


@pytest.mark.parametrize("words", ["cdi generate", "gpu-tracker enable", "slurm gres"])
def test_under_constraindevices_nothing_is_said_for_the_whole_host(second_job: SlurmBox, words: str) -> None:
    answer = second_job("srun", "--quiet", "--gres=gpu:2", "/usr/bin/amd-ctk", *words.split(), check=False)

    assert "2 of 4 GPUs are hidden from this process by its device cgroup" in answer.stderr
    assert second_job("ls", "/etc/cdi", check=False).stdout == ""
