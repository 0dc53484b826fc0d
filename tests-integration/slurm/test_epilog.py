"""The epilog of the guide, with four MI210: the memory of GPU 3 is leaked, and nothing is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amdgpu_discovery.host import Host
from amdgpu_simulator.runs.breaking import break_gpu
from support.documentation import read_page
from support.slurm_box import SlurmBox

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

SUITES = ("bookworm", "trixie", "forky")
WHERE = "add `Epilog=/etc/slurm/epilog` to `slurm.conf`:\n\n```text\n"
EPILOG = read_page("docs/how-to/slurm.md").partition(WHERE)[2].partition("```")[0]
NO_JOB = '[ -z "$(squeue --noheader)" ]'


def leak(host: Host) -> None:
    break_gpu(host, 3, "leaked")


@pytest.fixture(params=SUITES)
def node(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox]) -> SlurmBox:
    """Return a cluster of one node whose jobs end with the epilog."""
    node = make_node(request.param, hide=leak)
    node.configure(node.gres)
    # What it prints goes nowhere else.
    node.write("/etc/slurm/epilog", EPILOG.replace("#!/bin/sh\n", "#!/bin/sh\nexec >>/run/epilog.out 2>&1\n").encode())
    node("chmod", "755", "/etc/slurm/epilog")
    node("sh", "-c", "echo Epilog=/etc/slurm/epilog >>/etc/slurm/slurm.conf")
    node.start_slurm()
    node.wait_until("srun", "--quiet", "--immediate=5", "/bin/true")
    return node


def state_after(node: SlurmBox, gpus: int) -> tuple[str, str]:
    """Return the state of the node after a job with so many GPUs, and what the epilog printed."""
    node("sh", "-c", ": >/run/epilog.out")
    node("srun", "--quiet", f"--gres=gpu:{gpus}", "/bin/true")
    node.wait_until("sh", "-c", NO_JOB)
    return node("sinfo", "--noheader", "--format=%T %E").stdout.strip(), node("cat", "/run/epilog.out").stdout


def test_the_epilog_of_the_guide_drains_a_node_on_which_a_job_has_left_memory(node: SlurmBox) -> None:
    clean = "".join(f"GPU {number} is clean\n" for number in range(3))
    assert state_after(node, gpus=3) == ("idle none", clean)

    left = "GPU 3 is in use: used without a reservation: 58968 MiB of its memory, busy 0 %\n"
    assert state_after(node, gpus=4) == ("drained Epilog error", f"{clean}{left}")

    assert node("srun", "--quiet", "--immediate=1", "/bin/true", check=False).returncode != 0
    node("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert state_after(node, gpus=1) == ("idle none", "GPU 0 is clean\n")
