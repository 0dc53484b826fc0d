"""A container that a job left detached is a job: listed, kept and ended. Limits are in story/test_people.py."""

from __future__ import annotations

import json
import os
import shlex

import pytest

from amd_gpu_sharing.broker.requests.protocol import END, KEEP, Request
from amd_gpu_tracker.book.lease import TOKEN
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.shared_host import ALICE, BOB, Broker, Person, run, users, wait_until
from support.simulated import run_amd_ctk

pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.docker, pytest.mark.podman]

JOB = ("sh", "-c", "echo begun; exec sleep 600")


@pytest.fixture
def host(tmp_path):
    require_root()
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
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


def test_a_container_that_its_command_left_detached_is_a_job_that_is_kept_and_ended(engine, host):
    broker = Broker(host)
    broker.set_terms("fifo", "alice=40001:time=1h")
    broker.start()
    job = Person(broker, 0, run("train", "0", behind=ALICE), command=JOB)
    people = [job]
    try:
        container = start_in(job, engine)
        job.kill()
        job.ended_by()
        wait_until(lambda: users(host) == {0: [container]})
        listed = json.loads(run_amd_ctk(host.root, "queue", "list", "--json"))["running"]
        assert [(each["name"], each["person"], each["gpus"], each["pid"], each["containers"]) for each in listed] == [
            ("train", ALICE, [0], None, [container])
        ]
        until = listed[0]["until"]

        people.append(Person(broker, 0, Request(verb=END, name="train", owner=BOB)))
        assert people[-1].line() == "11: this user has no reservation or job train (see 'amd-ctk queue')"
        people.append(Person(broker, 0, Request(verb=KEEP, name="train", seconds=7200)))
        assert people[-1].line() == "got ()"
        assert json.loads(run_amd_ctk(host.root, "queue", "list", "--json"))["running"][0]["until"] > until + 3000
        assert state_of(container, engine) == "running"

        people.append(Person(broker, 0, Request(verb=END, name="train", owner=ALICE)))

        assert people[-1].line() == "got ()"
        wait_until(lambda: users(host) == {})
        assert state_of(container, engine) == "exited"
    finally:
        for each in people:
            each.close()
        broker.kill()


def start_in(job, engine):
    """Start a container with the GPUs of a job that has begun; return its id."""
    assert [job.line(), job.line()] == ["got (0,)", "begun"]
    # While a process becomes another program, its environment reads empty.
    wait_until(lambda: Processes().variable(job.pid, TOKEN))
    token = f"{TOKEN}={Processes().variable(job.pid, TOKEN)}"
    runtime = ["--runtime=amd"] if "DOCKER_HOST" in os.environ else []
    asking = ("--detach", "--restart=always", "--network=none", "--env=AMD_VISIBLE_DEVICES=0", f"--env={token}")
    return engine("run", *asking, *runtime, IMAGE, "sleep", "600").stdout.strip()


def state_of(container, engine):
    return engine("inspect", "--format={{.State.Status}}", container).stdout.strip()


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
