"""`amd-ctk doctor` beside real engines: nothing bad where all is well, and what is wrong is found."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import time

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.installed import engine_program, our_program, require_root

pytestmark = pytest.mark.e2e

PROGRAMS = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where an engine does not answer; a machine that does much else may take several times as long.
TIMEOUT = 40.0
# What the command takes itself, however busy the machine is.
PROCESSOR_SECONDS = 1.5


def bad_of(host, *words, **environment):
    """Return what doctor calls bad on a host: {check: words}."""
    for _ in range(20):
        ended = subprocess.run(
            [our_program("amd-ctk"), "doctor", "--json", *words],
            env={"PATH": PROGRAMS, "AMD_CTK_HOST_ROOT": host.root, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        # On a machine that is busy an engine may take longer than doctor waits.
        if ended.stdout and "gave no answer" not in ended.stdout:
            break
    assert "Traceback" not in ended.stderr
    checks = json.loads(ended.stdout)["checks"]
    return {check["id"]: check["words"] for check in checks if check["state"] == "bad"}


def processor_seconds():
    """Return what the children of this process have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def not_given(container):
    return {"inside-nodes": f"container {container[:12]} was given no GPU: it has no /dev/kfd and no render node"}


@pytest.fixture
def engine(docker):
    """Return how doctor finds the Docker engine of these tests."""
    return {"DOCKER_HOST": f"unix://{docker.socket}"}


@pytest.mark.docker
@pytest.mark.parametrize("user", ["0", "1000"])
def test_a_container_of_docker_that_got_its_gpus_has_nothing_bad(mi300x, engine, start, user):
    container = start("0-2", f"--user={user}", "--name=doctor-well")

    assert bad_of(mi300x, **engine) == {}
    assert bad_of(mi300x, f"--container={container}", **engine) == {}
    assert bad_of(mi300x, "--container=doctor-well", **engine) == {}


@pytest.mark.docker
def test_a_container_of_docker_that_got_none_is_found(mi300x, engine, start):
    container = start("none")

    assert bad_of(mi300x, f"--container={container}", **engine) == not_given(container)


@pytest.mark.docker
def test_a_daemon_that_has_not_read_its_file_is_found(tmp_path, docker, engine):
    host = build_host(tmp_path / "host", "mi300x-8")
    program = our_program("amd-container-runtime")
    (tmp_path / "host/etc/docker").mkdir()
    runtimes = {"gpu": {"path": f"{program}"}}
    (tmp_path / "host/etc/docker/daemon.json").write_text(json.dumps({"runtimes": runtimes}))
    version = docker("version", "--format={{.Server.Version}}").stdout.partition("+")[0].strip()

    found = bad_of(host, **engine)

    assert list(found) == ["docker"]
    assert found["docker"].endswith("was started before daemon.json had the runtime gpu")
    assert found["docker"].startswith(version.split(".")[0])


@pytest.mark.docker
def test_an_engine_that_does_not_answer_is_not_waited_for(mi300x, tmp_path):
    require_root()
    engine_program("docker")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/silent.sock")
        # It takes every connection and says nothing.
        silent.listen(16)
        begin, used = time.monotonic(), processor_seconds()
        words = (our_program("amd-ctk"), "doctor", "--only=docker,driver")
        ended = subprocess.run(
            words,
            env={"PATH": PROGRAMS, "AMD_CTK_HOST_ROOT": mi300x.root, "DOCKER_HOST": f"unix://{tmp_path}/silent.sock"},
            capture_output=True,
            text=True,
            check=False,
        )

    assert time.monotonic() - begin < TIMEOUT
    assert processor_seconds() - used < PROCESSOR_SECONDS
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        "driver  ok           amdgpu 6.8.5 is loaded\n"
        "docker  not checked  the docker daemon does not answer: docker gave no answer within 8 seconds\n"
        f"                     needs: an engine at unix://{tmp_path}/silent.sock, or: unset DOCKER_HOST\n"
        "2 checks: 1 ok, 0 bad, 0 notes, 1 not checked\n"
    )


@pytest.mark.podman
@pytest.mark.parametrize(("gpus", "is_well"), [("0-2", True), ("none", False)])
def test_a_container_of_podman_is_looked_at(mi300x, podman, gpus, is_well):
    asking = ("--detach", f"--env=AMD_VISIBLE_DEVICES={gpus}", "--user=1000")
    container = podman("run", *asking, IMAGE, "sleep", "600").stdout.strip()
    # The runtimes of this Podman write their states on this machine, not on the simulated host.
    first_process = podman("inspect", "--format={{.State.Pid}}", container).stdout.strip()

    found = bad_of(mi300x, f"--container={first_process}", PATH="/usr/sbin:/sbin")

    assert found == ({} if is_well else not_given(first_process))
