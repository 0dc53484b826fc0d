"""`status --usage` with containers of real engines: whose process it is tells the cgroup that the engine gave it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.gpu_use import use_gpu
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.simulated import run_amd_ctk

pytestmark = [pytest.mark.e2e]


@pytest.fixture(
    params=[pytest.param("docker", marks=pytest.mark.docker), pytest.param("podman", marks=pytest.mark.podman)]
)
def engine(request, tmp_path, image_archive):
    """Return an engine's name, its command and the simulated host that it serves, on which GPUs are tracked."""
    require_root()
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    # Before it sees the machine's state, in which are containers of tests beside this one: it would adopt them.
    run_amd_ctk(host.root, "gpu-tracker", "enable")
    if request.param == "docker":
        command = request.getfixturevalue("start_docker")(host.root)
    else:
        (tmp_path / "podman").mkdir()
        command = Podman(engine_program("podman"), tmp_path / "podman", our_program("amd-container-runtime"), host.root)
        command.import_image(image_archive)
        # Podman names no directory for the runtime's state, so that it is the machine's default and not this host's.
        Path(host.path("/run/runc")).symlink_to("/run/runc")
    yield request.param, command, host
    containers = command("ps", "--all", "--quiet").stdout.split()
    command("rm", "--force", *containers)


def start(name, command, gpus):
    """Start a container; return its id and the process that is its first."""
    runtime = ["--runtime=amd"] if command.__class__.__name__ == "Docker" else []
    options = ["--detach", "--network=none", f"--name={name}", f"--env=AMD_VISIBLE_DEVICES={gpus}", *runtime]
    container = command("run", *options, IMAGE, "sleep", "600").stdout.strip()
    pid = int(command("inspect", "--format={{.State.Pid}}", container).stdout)
    assert pid > 1
    return container, pid


def test_each_process_is_shown_with_its_container_or_with_none(engine):
    kind, command, host = engine
    tracked, first = start("training-run-of-tuesday", command, "0")
    untracked, second = start("batch", command, "none")
    with subprocess.Popen(["sleep", "600"]) as bare:
        use_gpu(host, first, 0, mib=40 * 1024)
        use_gpu(host, second, 0, mib=1024)
        use_gpu(host, second, 1, mib=512)
        use_gpu(host, bare.pid, 0, mib=300, in_kfd=False)

        shown = run_amd_ctk(host.root, "status", "--usage")
        gpus = json.loads(run_amd_ctk(host.root, "status", "--usage", "--json"))["gpus"]
        bare.kill()

    rule = shown.partition("\n")[0]
    users = [
        [
            (user["container_id"], user["name"], user["engine"], user["is_tracked"], user["vram_bytes"] // 2**20,
             [(process["pid"], process["name"]) for process in user["processes"]])
            for user in gpu["users"]
        ]
        for gpu in gpus
    ]  # fmt: skip
    assert users == [
        [
            (tracked, "training-run-of-tuesday", kind, True, 40960, [(first, "sleep")]),
            (untracked, "batch", kind, False, 1024, [(second, "sleep")]),
            (None, None, None, False, 300, [(bare.pid, "sleep")]),
        ],
        [(untracked, "batch", kind, False, 512, [(second, "sleep")])],
        [],
        [],
    ]
    # As long as the widest line, which pids decide.
    assert set(rule) == {"-"}
    assert shown == (
        f"{rule}\n"
        "GPU  Model  VRAM used      Who                                 Memory  Processes\n"
        f"{rule}\n"
        f"0    MI210  - of 64.0 GiB  training-run-of-tuesday ({kind})  40.0 GiB  sleep {first}\n"
        f"                           batch ({kind})                     1.0 GiB  sleep {second} (not tracked)\n"
        f"                           (no container)                     0.3 GiB  sleep {bare.pid}\n"
        f"1    MI210  - of 64.0 GiB  batch ({kind})                     0.5 GiB  sleep {second} (not tracked)\n"
        "2    MI210  - of 64.0 GiB  -\n"
        "3    MI210  - of 64.0 GiB  -\n"
    )
