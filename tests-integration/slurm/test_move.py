"""A lab moves its server from the line of amd-ctk to Slurm: running jobs end, GPUs follow, and the report stays."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.box import USER
from support.slurm_box import SlurmBox, gpus_in

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

SOCKET = "/run/amd-container-toolkit/gpus.socket"


def test_the_last_job_ends_before_slurm_has_the_gpus_and_the_report_keeps_what_was(
    make_node: Callable[..., SlurmBox],
) -> None:
    node = make_node("trixie")
    node("amd-ctk", "users", "allow", USER, "--gpus=3")
    node.start("amd-ctk", "gpu-tracker", "serve", "--listen", SOCKET)
    node.wait_until("test", "-S", SOCKET)
    node("amd-ctk", "run", "--gpus=0-1", "--name=before", "--", "true", user=USER)
    job = "until [ -e /tmp/enough ]; do sleep 0.1; done; touch /tmp/last"
    node("sh", "-c", f"amd-ctk run --gpus=2 --name=last -- sh -c '{job}' >/dev/null 2>&1 &", user=USER)
    node.wait_until("sh", "-c", "amd-ctk queue | grep -w last")

    node("amd-ctk", "users", "deny", "--all")
    refused = node("amd-ctk", "run", "--gpus=free:1", "--", "true", user=USER, check=False)
    node.start("sh", "-c", "sleep 1; touch /tmp/enough")
    node("amd-ctk", "gpu-tracker", "drain", "all", "--wait", "--reason=Slurm")
    last = node("ls", "/tmp/last").stdout
    node("amd-ctk", "gpu-tracker", "undrain", "all")
    node.configure(node.gres)
    node.start_slurm()
    node.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")

    assert refused.returncode == 3, refused.stderr
    assert last == "/tmp/last\n"
    assert gpus_in(node.srun("/bin/list-gpus", gpus=2).stdout) == ["renderD130", "renderD131"]
    totals = json.loads(node("amd-ctk", "report", "--json").stdout)["totals"]
    assert {row["person"]: row["starts"] for row in totals}[USER] == 2
