"""The first 'amd-ctk users allow' on a host makes it a shared one, step by step."""

from __future__ import annotations

import json
from pathlib import Path

from amd_gpu_sharing.rules.permissions import read_permissions
from amd_gpu_tracker import Tracker

RULE = "everyone may reserve GPUs, at most 1 at once\n"
ENABLED = "GPU Tracker has been enabled\n"
HOW = "'sudo amd-ctk gpu-tracker GPUS exclusive' gives each of these GPUs one job at a time\n"


def modes_of(served) -> list[str]:
    return [gpu.accessibility for gpu in Tracker(served).status().gpus]


def write(served, path: str, text: str = "") -> None:
    file = Path(served.path(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_first_rule_enables_the_tracker_and_makes_all_gpus_exclusive(host, amd_ctk) -> None:
    served = host()

    answer = amd_ctk("users", "allow", "everyone", "--gpus=1")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == f"{ENABLED}GPUs [0 1 2 3] have been made exclusive\n{RULE}"
    assert modes_of(served) == ["exclusive"] * 4


def test_a_dry_run_lists_all_steps_and_changes_nothing(host, amd_ctk) -> None:
    served = host()

    answer = amd_ctk("users", "allow", "everyone", "--gpus=1", "--dry-run")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(
        "GPU Tracker would be enabled\n"
        "GPUs [0 1 2 3] would be made exclusive, unless several containers are using them\n"
        "--- /etc/amd-container-toolkit/config.toml\n"
    )
    assert answer.stdout.endswith('+users = ["everyone:gpus=1"]\n')
    assert not Tracker(served).is_enabled()
    assert read_permissions(served) == []


def test_the_second_rule_only_adds_itself(host, amd_ctk) -> None:
    served = host()
    amd_ctk("users", "allow", "everyone", "--gpus=1")
    amd_ctk("gpu-tracker", "3", "shared")

    answer = amd_ctk("users", "allow", "daemon")

    assert (answer.stdout, answer.stderr) == ("daemon (user 1) may reserve GPUs\n", "")
    assert modes_of(served) == ["exclusive", "exclusive", "exclusive", "shared"]


def test_with_shared_the_gpus_stay_shared(host, amd_ctk) -> None:
    served = host()

    answer = amd_ctk("users", "allow", "everyone", "--gpus=1", "--shared")

    assert (answer.stdout, answer.stderr) == (f"{ENABLED}{RULE}", f"GPUs stay shared: {HOW}")
    assert modes_of(served) == ["shared"] * 4


def test_gpus_that_kubernetes_slurm_and_swarm_may_give_out_stay_shared(host, amd_ctk) -> None:
    served = host()
    write(served, "/var/lib/kubelet/config.yaml")
    write(served, "/etc/slurm/slurm.conf")
    write(served, "/etc/docker/daemon.json", json.dumps({"node-generic-resources": ["AMD_GPU=0"]}))

    planned = amd_ctk("users", "allow", "everyone", "--gpus=1", "--dry-run")
    answer = amd_ctk("users", "allow", "everyone", "--gpus=1")

    said = f"GPUs stay shared, because Kubernetes and Slurm and Docker Swarm may give them out: {HOW}"
    assert (answer.stdout, answer.stderr) == (f"{ENABLED}{RULE}", said)
    assert said in planned.stdout
    assert modes_of(served) == ["shared"] * 4


def test_a_rule_that_allows_nothing_prepares_nothing(host, amd_ctk) -> None:
    served = host()

    answer = amd_ctk("users", "allow", "daemon", "--gpus=0")

    assert (answer.stdout, answer.stderr) == ("daemon (user 1) may not reserve GPUs\n", "")
    assert not Tracker(served).is_enabled()


def test_a_tracker_that_was_disabled_stays_disabled_and_the_answer_says_so(host, amd_ctk) -> None:
    served = host()
    amd_ctk("gpu-tracker", "enable")
    amd_ctk("gpu-tracker", "disable")

    answer = amd_ctk("users", "allow", "everyone", "--gpus=1")

    assert answer.stdout == RULE
    assert answer.stderr == (
        "the GPU Tracker is disabled, so nobody gets a GPU: run 'sudo amd-ctk gpu-tracker enable'\n"
    )
    assert not Tracker(served).is_enabled()


def test_after_an_interruption_before_the_modes_the_answer_names_what_is_missing(host, amd_ctk) -> None:
    host()
    amd_ctk("gpu-tracker", "enable")

    answer = amd_ctk("users", "allow", "everyone", "--gpus=1")

    assert (answer.stdout, answer.stderr) == (RULE, f"all GPUs are shared: {HOW}")


def test_without_a_driver_nothing_is_done(host, amd_ctk) -> None:
    served = host("no-driver")

    answer = amd_ctk("users", "allow", "everyone")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("amdgpu driver unavailable: ")
    assert read_permissions(served) == []


def test_a_rule_that_cannot_be_written_is_the_last_step(host, limited_amd_ctk) -> None:
    served = host()
    settings = Path(served.path("/etc/amd-container-toolkit"))
    settings.mkdir(parents=True, exist_ok=True)
    settings.chmod(0o555)

    answer = limited_amd_ctk("users", "allow", "everyone", "--gpus=1")

    assert (answer.returncode, answer.stdout) == (5, f"{ENABLED}GPUs [0 1 2 3] have been made exclusive\n")
    assert modes_of(served) == ["exclusive"] * 4


def test_a_name_that_does_not_exist_prepares_nothing(host, amd_ctk) -> None:
    served = host()

    answer = amd_ctk("users", "allow", "nobody-of-this-name")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert not Tracker(served).is_enabled()
