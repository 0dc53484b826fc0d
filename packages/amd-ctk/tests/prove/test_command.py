"""`amd-ctk doctor --prove` as a whole, with a Docker that prints what the kernel would answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

INFO = json.dumps({"ServerVersion": "28.5.2", "Runtimes": {"runc": {}, "amd": {}}, "DefaultRuntime": "runc"})
# Two GPUs with the numbers of one-gpu and its twin; each container can use its own.
DOCKER = """#!/bin/sh
case $1 in
    info) echo '{info}' ;;
    import) cat >/dev/null; echo "$3" >>"{log}" ;;
    rmi) echo "removed $3" >>"{log}" ;;
    run) echo "$*" >>"{log}.runs"; cat "{answers}" ;;
esac
"""
RIGHT = "open /dev/kfd 0\nlisted {gpu_id} 0\nopen /dev/dri/renderD128 0\ndevice /dev/dri/renderD128 {device}\n"


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Return a function that puts a Docker on PATH whose containers print this."""
    monkeypatch.chdir(tmp_path)

    def answer(text):
        (tmp_path / "answers").write_text(text)
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        script = DOCKER.replace("{info}", INFO).replace("{log}", f"{tmp_path}/log")
        (programs / "docker").write_text(script.replace("{answers}", f"{tmp_path}/answers"))
        (programs / "docker").chmod(0o755)
        for name in ("podman", "ctr"):
            (programs / name).write_text("#!/bin/sh\nexit 1\n")
            (programs / name).chmod(0o755)
        return {"PATH": f"{programs}:{os.environ['PATH']}", "DOCKER_HOST": ""}

    return answer


def right(gpu, more=""):
    return RIGHT.format(gpu_id=gpu.gpu_id, device=gpu.device_id) + more


@pytest.fixture
def gpu(host):
    from amdgpu_discovery.discover import find_gpus

    return find_gpus(host("one-gpu"))[0]


def test_a_gpu_that_computes_is_proved(gpu, docker, amd_ctk, tmp_path):
    ended = amd_ctk("doctor", "--prove", **docker(right(gpu)))

    assert ended.returncode == 0
    assert ended.stdout == (
        "Engine  GPU  Result\ndocker  0    ok      opens and answers; there is no other GPU\n1 of 1 proved, 0 skipped\n"
    )
    assert (tmp_path / "log").read_text() == "localhost/amd-ctk-proof:local\nremoved localhost/amd-ctk-proof:local\n"
    written = json.loads((tmp_path / "amd-gpu-proof.json").read_text())
    assert written["results"] == [
        {"engine": "docker", "gpu": 0, "state": "ok", "words": "opens and answers; there is no other GPU"}
    ]
    assert f"{gpu.pci_unique_id:x}" not in json.dumps(written).lower()


def test_where_the_kernel_limits_memory_the_limit_is_proved_too(gpu, host, docker, amd_ctk, tmp_path):
    cgroups = Path(host("one-gpu").path("/sys/fs/cgroup"))
    region = f"drm/{gpu.pci_address}/vram"
    cgroups.mkdir(parents=True, exist_ok=True)
    (cgroups / "cgroup.controllers").write_text("cpu memory dmem\n")
    (cgroups / "dmem.capacity").write_text(f"{region} {64 << 30}\n")
    runc = tmp_path / "bin/runc"
    environment = docker(right(gpu, f"limit {region} {1 << 30}\n"))
    runc.touch(0o755)

    ended = amd_ctk("doctor", "--prove", **environment)

    assert ended.stdout.splitlines()[1] == (
        "docker  0    ok      opens and answers; there is no other GPU; limited to 1024 MiB"
    )
    assert " -e AMD_VISIBLE_DEVICES=0 -e AMD_VRAM=1GiB " in (tmp_path / "log.runs").read_text()


def test_another_device_behind_the_node_fails(gpu, docker, amd_ctk, tmp_path):
    ended = amd_ctk("doctor", "--prove", **docker(right(gpu).replace(str(gpu.device_id), "1")))

    assert (ended.returncode, ended.stdout.splitlines()[1]) == (
        1,
        "docker  0    failed  /dev/dri/renderD128 is device 0x0001",
    )


def test_a_host_without_gpus_has_nothing_to_prove(host, docker, amd_ctk, tmp_path):
    host("no-driver")

    ended = amd_ctk("doctor", "--prove", **docker(""))

    assert (ended.returncode, ended.stderr) == (
        2,
        "this host has no AMD GPU that can compute ('amd-ctk doctor' looks for the cause)\n",
    )
