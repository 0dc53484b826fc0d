"""A container whose job is over by its time is stopped by its engine, which does not start it again."""

from __future__ import annotations

import os
import shlex

import pytest

from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import TOKEN
from amd_gpu_tracker.tracker import Tracker
from amdgpu_discovery.simulate import build_host
from support.docker import IMAGE
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.shared_host import ALICE, Broker, Person, run, users, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.docker, pytest.mark.podman]

# Longer than an engine takes to start a container on a busy machine.
LIMIT = "alice=40001:time=20s"
JOB = ("sh", "-c", "echo begun; exec sleep 600")


@pytest.fixture
def host(tmp_path):
    require_root()
    host = build_host(tmp_path / "host", "mi210-4", with_links=False)
    Tracker(host).enable()
    Tracker(host).set_accessibility("all", exclusive=True)
    return host


@pytest.fixture(params=["docker", "podman"])
def engine(request, host, tmp_path, monkeypatch):
    """Return an engine of one's own, which is the one that root's `docker` or `podman` is."""
    if request.param == "docker":
        docker = request.getfixturevalue("start_docker")(host.root)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{docker.socket}")
        yield docker
    else:
        podman = Podman(engine_program("podman"), tmp_path, our_program("amd-container-runtime"), host.root)
        podman.import_image(request.getfixturevalue("image_archive"))
        become_roots(podman, tmp_path / "bin", monkeypatch)
        yield podman
        podman("rm", "--all", "--force", "--time=0", check=False)


def test_a_container_is_stopped_and_not_started_again(engine, host):
    broker = Broker(host)
    broker.say("fifo", LIMIT)
    broker.start()
    job = Person(broker, 0, run("train", "0", behind=ALICE), command=JOB)
    try:
        assert [job.line(), job.line()] == ["got (0,)", "begun"]
        # While a process becomes another program, its environment reads empty.
        wait_until(lambda: Processes().variable(job.pid, TOKEN))
        token = f"{TOKEN}={Processes().variable(job.pid, TOKEN)}"
        runtime = ["--runtime=amd"] if "DOCKER_HOST" in os.environ else []
        asking = ("--detach", "--restart=always", "--network=none", "--env=AMD_VISIBLE_DEVICES=0", f"--env={token}")
        container = engine("run", *asking, *runtime, IMAGE, "sleep", "600").stdout.strip()
        assert users(host) == {0: ["train", container]}

        wait_until(lambda: users(host) == {})

        assert engine("inspect", "--format={{.State.Status}}", container).stdout.strip() == "exited"
        assert f"time is over: container {container}: {engine_name(engine)} stop" in broker.lines()
    finally:
        job.close()
        broker.kill()


def become_roots(podman, directory, monkeypatch):
    """Let the command `podman` be this Podman, whose containers lie elsewhere."""
    directory.mkdir()
    (directory / "podman").write_text(f'#!/bin/sh\nexec {shlex.join(podman.command())} "$@"\n')
    (directory / "podman").chmod(0o755)
    for name, value in podman.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{directory}:{podman.environment['PATH']}")


def engine_name(engine):
    return "podman" if isinstance(engine, Podman) else "docker"
