"""A container that its engine starts again keeps its exclusive GPU against a job that waits for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.installed import our_program, require_root
from support.simulated import run_amd_ctk

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


class Service:
    """A Docker engine on four simulated MI210, of which GPU 0 is exclusive, and a job that waits for GPU 0."""

    def __init__(self, docker, host):
        self.docker = docker
        self.host = host
        self.jobs = []

    def tracker(self, *words):
        return run_amd_ctk(self.host.root, "gpu-tracker", *words)

    def run(self, *options, command=("sleep", "600")):
        asking = ("--detach", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0", "--network=none")
        return self.docker("run", *asking, *options, IMAGE, *command).stdout.strip()

    def wait_in_line(self, *words):
        """Start a job that waits for GPU 0, and come back when it is in line."""
        command = [our_program("amd-ctk"), "run", "--gpus=0", "--wait", "--", *(words or ("sleep", "600"))]
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": self.host.root}
        self.jobs.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        assert self.jobs[-1].stderr.readline().startswith("waiting for 1 GPU")
        return self.jobs[-1]

    def users(self):
        status = json.loads(self.tracker("status", "--json"))
        return [use["container_id"] for use in status["gpus"][0]["containers"]]

    def started(self, container):
        """Return how the engine says that a container is, and when it was started last."""
        return self.docker("inspect", "--format={{.State.Status}} {{.State.StartedAt}}", container).stdout.split()

    def kill(self, container):
        pid = int(self.docker("inspect", "--format={{.State.Pid}}", container).stdout)
        assert pid > 1
        os.kill(pid, signal.SIGKILL)

    def wait_for_restart(self, container, before):
        wait_for(lambda: (now := self.started(container))[0] == "running" and now != before)
        assert self.users() == [container]
        assert all(job.poll() is None for job in self.jobs)

    def end(self):
        for job in self.jobs:
            job.kill()
            job.communicate()
        if containers := self.docker("ps", "-aq").stdout.split():
            # One with --rm may be gone meanwhile.
            self.docker("rm", "-f", *containers, check=False)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def engines(start_docker, tmp_path_factory):
    """Return a function that starts an engine with these settings on a host of its own, once."""
    require_root()
    made = {}

    def engine(**settings):
        key = tuple(sorted(settings))
        if key not in made:
            host = build_host(tmp_path_factory.mktemp("restarts") / "host", "mi210-4", bare=True)
            made[key] = (start_docker(host.root, **settings), host)
        service = Service(*made[key])
        service.tracker("enable")
        service.tracker("reset")
        service.tracker("0", "exclusive")
        return service

    return engine


@pytest.fixture
def service(engines):
    service = engines()
    yield service
    service.end()


@pytest.fixture
def live_restore(engines):
    service = engines(**{"live-restore": True})
    yield service
    service.end()


@pytest.mark.parametrize("policy", ["always", "unless-stopped", "on-failure"])
def test_a_service_that_crashes_has_its_gpu_again(service, policy):
    container = service.run(f"--restart={policy}")
    service.wait_in_line()

    for _ in range(3):
        before = service.started(container)
        service.kill(container)
        service.wait_for_restart(container, before)


def test_a_service_that_is_restarted_has_its_gpu_again(service):
    container = service.run("--restart=always")
    service.wait_in_line()

    for _ in range(3):
        before = service.started(container)
        service.docker("restart", "--time=0", container)
        service.wait_for_restart(container, before)


def test_a_service_has_its_gpu_again_after_its_engine_was_restarted(service):
    container = service.run("--restart=always")
    before = service.started(container)
    service.wait_in_line()

    service.docker.halt()
    service.docker.start()

    service.wait_for_restart(container, before)


def test_a_service_that_dies_while_its_engine_is_down_has_its_gpu_again(live_restore):
    container = live_restore.run("--restart=always")
    before = live_restore.started(container)
    pid = int(live_restore.docker("inspect", "--format={{.State.Pid}}", container).stdout)
    live_restore.wait_in_line()

    live_restore.docker.halt()
    os.kill(pid, signal.SIGKILL)
    live_restore.docker.start()

    live_restore.wait_for_restart(container, before)


@pytest.mark.parametrize("options", [(), ("--rm",), ("--restart=no",)], ids=str)
def test_a_container_that_nobody_starts_again_keeps_nothing(service, options):
    container = service.run(*options)
    job = service.wait_in_line("true")

    service.kill(container)

    assert job.wait(timeout=60) == 0


def test_a_service_that_is_removed_keeps_nothing(service):
    container = service.run("--restart=always")
    job = service.wait_in_line("true")

    service.docker("rm", "--force", container)

    assert job.wait(timeout=60) == 0


def test_a_service_that_is_stopped_gives_its_gpu_back_after_a_moment(service):
    container = service.run("--restart=always", "--name=web")
    job = service.wait_in_line("true")

    service.docker("stop", "--time=0", container)

    assert service.users() == [container]
    refused = service.docker("run", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0", IMAGE, "true", check=False).stderr
    assert f"GPU 0 is in use by container {container} (web), which its engine will restart" in refused
    assert job.wait(timeout=60) == 0
    assert service.users() == []
