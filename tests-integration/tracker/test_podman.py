"""CDI devices of a real Podman are tracked by the spec's hooks, under plain runc and crun that know nothing of us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.simulated import run_amd_ctk

pytestmark = [pytest.mark.e2e, pytest.mark.podman]

# Podman 4.3 knows no other directories than this and /etc/cdi.
CDI_DIRECTORY = Path("/run/cdi")
# crun cannot make cgroups where both versions are mounted.
PREPARE = """
mount --bind "$1" /run/cdi
if [ -d /sys/fs/cgroup/unified ]; then umount /sys/fs/cgroup/unified; fi
echo ready
exec sleep infinity
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return build_host(tmp_path_factory.mktemp("cdi") / "host", "mi210-4", bare=True)


@pytest.fixture(scope="module")
def ctk(host):
    """Return a function that runs amd-ctk for the simulated host."""
    return lambda *words: run_amd_ctk(host.root, *words)


@pytest.fixture(scope="module")
def mounts(host, ctk):
    """Return a process in whose mount namespace the host's CDI spec is this machine's."""
    require_root()
    ctk("gpu-tracker", "enable")
    ctk("cdi", "generate")
    made = not CDI_DIRECTORY.exists()
    CDI_DIRECTORY.mkdir(exist_ok=True)
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", PREPARE, "sh", host.path("/etc/cdi")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "ready\n"
    yield holder.pid
    holder.kill()
    holder.communicate()
    if made:
        CDI_DIRECTORY.rmdir()


class PodmanInNamespace(Podman):
    """Podman in the mount namespace of another process."""

    def __init__(self, pid, directory, runtime):
        super().__init__(engine_program("podman"), directory, runtime, "/")
        self._words = [engine_program("nsenter"), f"--target={pid}", "--mount", *self._words]


@pytest.fixture(scope="module", params=["runc", "crun"])
def podman(request, tmp_path_factory, image_archive, mounts):
    podman = PodmanInNamespace(mounts, tmp_path_factory.mktemp("podman"), engine_program(request.param))
    podman.shows_the_hooks_words = request.param == "runc"
    podman.import_image(image_archive)
    yield podman
    podman("rm", "--all", "--force", "--time=0", check=False)


@pytest.fixture
def tracked(podman, ctk):
    """Return a function that runs a container with CDI devices; GPU 0 is exclusive, and none is in use."""
    ctk("gpu-tracker", "reset")
    ctk("gpu-tracker", "0", "exclusive")

    def run(*numbers, options=()):
        devices = [f"--device=amd.com/gpu={number}" for number in numbers]
        return podman("run", "--detach", "--network=none", *devices, *options, IMAGE, "sleep", "600", check=False)

    yield run
    podman("rm", "--all", "--force", "--time=0")


def users(ctk):
    status = json.loads(ctk("gpu-tracker", "status", "--json"))
    return {gpu["number"]: [(use["container_id"], use["ways"]) for use in gpu["containers"]] for gpu in status["gpus"]}


def test_a_cdi_container_claims_shows_and_gives_back(tracked, podman, ctk):
    container = tracked(0, 2).stdout.strip()

    by_cdi = [(container, ["cdi"])]
    assert users(ctk) == {0: by_cdi, 1: [], 2: by_cdi, 3: []}
    podman("rm", "--force", "--time=0", container)
    assert users(ctk) == {0: [], 1: [], 2: [], 3: []}


def test_an_exclusive_gpu_in_use_is_refused(tracked, podman, ctk):
    first = tracked(0).stdout.strip()

    refused = tracked(0, 1)

    assert refused.returncode != 0
    words = "GPUs [1] allocated\nGPUs [0] are exclusive and already in use\nReleased GPUs [1] used by container "
    if podman.shows_the_hooks_words:
        assert words in refused.stderr.replace("\\n", "\n")
    shown = ctk("gpu-tracker", "refused").replace("\n    ", "\n")
    assert words in shown
    assert f"GPU 0 is in use by container {first}" in shown
    assert users(ctk)[0] == [(first, ["cdi"])]


def test_a_restart_claims_again_and_may_be_too_late(tracked, podman, ctk):
    first = tracked(0).stdout.strip()
    podman("stop", "--time=0", first)
    second = tracked(0).stdout.strip()

    assert podman("start", first, check=False).returncode != 0
    assert users(ctk)[0] == [(second, ["cdi"])]


def test_names_are_shown_on_request(tracked, podman, ctk):
    container = tracked(0).stdout.strip()
    name = podman("inspect", "--format={{.Name}}", container).stdout.strip()

    row = ctk("gpu-tracker", "status", "--wide").splitlines()[3]

    assert row.split()[2:5] == ["Exclusive", container, name]
    assert row.endswith(" cdi")


@pytest.fixture
def wait_in_line(host):
    """Return a function that starts a job that waits for GPU 0, and comes back when it is in line."""
    jobs = []

    def start():
        command = [our_program("amd-ctk"), "run", "--gpus=0", "--wait", "--", "true"]
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
        jobs.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        assert jobs[-1].stderr.readline().startswith("waiting for 1 GPU")
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()
        job.communicate()


def started(podman, container):
    return podman("inspect", "--format={{.State.Status}} {{.State.StartedAt}}", container).stdout.split(maxsplit=1)


@pytest.mark.parametrize("how", ["crash", "podman restart"])
def test_a_service_that_starts_again_has_its_gpu_again(tracked, podman, ctk, wait_in_line, how):
    container = tracked(0, options=("--restart=always",)).stdout.strip()
    before = started(podman, container)
    job = wait_in_line()

    if how == "crash":
        os.kill(int(podman("inspect", "--format={{.State.Pid}}", container).stdout), signal.SIGKILL)
    else:
        podman("restart", "--time=0", container)

    wait_for(lambda: (now := started(podman, container))[0] == "running" and now != before)
    assert users(ctk)[0] == [(container, ["cdi"])]
    assert job.poll() is None


@pytest.mark.parametrize("options", [(), ("--rm",), ("--restart=no",)], ids=str)
def test_a_container_that_nobody_starts_again_keeps_nothing(tracked, podman, wait_in_line, options):
    container = tracked(0, options=options).stdout.strip()
    job = wait_in_line()

    os.kill(int(podman("inspect", "--format={{.State.Pid}}", container).stdout), signal.SIGKILL)

    assert job.wait(timeout=60) == 0


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.05)
