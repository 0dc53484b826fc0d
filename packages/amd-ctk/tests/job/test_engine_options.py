"""What a job's `docker run` or `podman run` is given so that its container has the GPUs; the engines are scripts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.engines import engine_answers
from amd_ctk.job import engine_options
from amd_ctk.job.engine_options import NoGpusByEngine, find_options
from amdgpu_simulator import build_host

OURS = {"path": "/usr/bin/amd-container-runtime"}
DOCKER = {"Runtimes": {"runc": {"path": "runc"}, "amd": OURS}, "DefaultRuntime": "runc", "CDISpecDirs": []}
WITHOUT = {**DOCKER, "Runtimes": {"runc": {"path": "runc"}}}
WITH_CDI = {**WITHOUT, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}
# Podman 5.4 prints this where a runtime is not configured.
UNKNOWN = 'case "$*" in *--runtime=amd*) echo "Error: default OCI runtime \\"amd\\" not found" >&2; exit 125 ;; esac\n'


@pytest.fixture
def host(tmp_path):
    return build_host(tmp_path / "host", "mi210-4")


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Return a function that makes an engine which prints this, and which notes what it was asked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def make(name, output, *, first=""):
        script = f"#!/bin/sh\necho \"$@\" >>{tmp_path}/asked\n{first}cat <<'END'\n{output}\nEND\n"
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)

    return make


@pytest.fixture
def asked(tmp_path):
    """Return a function that tells what engines were asked."""
    return lambda: (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []


def test_an_engine_behind_env_is_asked_with_the_same_variables(engine, asked, host):
    engine("docker", json.dumps(DOCKER), first='[ "$X" = 1 ] || exit 1\n')

    assert named("env X=1 docker --log-level=debug run image", host) == ("--runtime=amd",)
    assert named("env DOCKER_HOST=tcp://elsewhere docker run image", host) == ()
    assert named("env X=1 nice -n 5 docker --log-level=debug run image", host) == ("--runtime=amd",)
    assert asked() == ["--log-level=debug info --format {{json .}}"] * 2


def test_an_engine_behind_sudo_is_asked_by_root(engine, host, tmp_path):
    engine("docker", json.dumps(DOCKER))
    engine("sudo", "", first='shift; exec "$@"\n')

    assert named("sudo -E docker run image", host) == ("--runtime=amd",)
    assert named("sudo docker run image", host) == ()
    kept = "--preserve-env=AMD_VISIBLE_DEVICES,AMD_CTK_RESERVATION"
    assert named(f"sudo {kept} docker run image", host) == ("--runtime=amd",)


def test_behind_sudo_that_needs_a_password_the_runtime_is_not_left_out(engine, host, capfd):
    engine("docker", json.dumps(DOCKER))
    engine("sudo", "", first="echo 'sudo: a password is required' >&2; exit 1\n")

    assert named("sudo -E docker run image", host) == ("--runtime=amd",)
    assert capfd.readouterr().err == "sudo needs a password to ask the engine, so --runtime=amd is added\n"


def test_an_engine_that_fails_behind_sudo_says_so_itself(engine, host, capfd):
    engine("docker", "", first="echo 'Cannot connect to the Docker daemon' >&2; exit 1\n")
    engine("sudo", "", first='shift; exec "$@"\n')

    assert named("sudo -E docker run image", host) == ()
    assert capfd.readouterr().err == ""


def with_spec(host):
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "amd.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}],
    }
    file = Path(host.path("/etc/cdi/amd.json"))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(spec))


def named(command, host, **environment):
    return find_options(command.split(), host, environment).for_gpus((1, 2))


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("docker run --rm image", "info --format {{json .}}"),
        ("docker container create image", "info --format {{json .}}"),
        ("docker run --privileged=0 image", "info --format {{json .}}"),
        ("docker -H unix:///run/d.sock run image", "-H unix:///run/d.sock info --format {{json .}}"),
    ],
)
def test_docker_is_asked_for_the_amd_runtime_and_given_it(host, engine, asked, command, question):
    engine("docker", json.dumps(DOCKER))

    assert named(command, host) == ("--runtime=amd",)
    assert asked() == [question]


def test_the_runtime_has_the_name_that_docker_knows(host, engine):
    engine("docker", json.dumps({**DOCKER, "Runtimes": {"runc": {"path": "runc"}, "gpus": OURS}}))

    assert named("docker run image", host) == ("--runtime=gpus",)


def test_a_default_runtime_needs_no_option(host, engine):
    engine("docker", json.dumps({**DOCKER, "DefaultRuntime": "amd"}))

    assert named("docker run image", host) == ()


def test_without_the_runtime_docker_gets_the_cdi_devices_of_the_gpus(host, engine):
    engine("docker", json.dumps(WITH_CDI))
    with_spec(host)

    assert named("docker run image", host) == ("--device=amd.com/gpu=1", "--device=amd.com/gpu=2")


@pytest.mark.parametrize(("info", "has_spec"), [(WITHOUT, True), (WITH_CDI, False)], ids=["cdi off", "no spec"])
def test_docker_without_runtime_and_cdi_is_refused(host, engine, info, has_spec):
    engine("docker", json.dumps(info))
    if has_spec:
        with_spec(host)

    with pytest.raises(NoGpusByEngine) as refused:
        named("docker run image", host)

    assert str(refused.value) == (
        "docker has no runtime amd (run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker')"
    )


def test_rootless_docker_without_the_runtime_is_configured_by_its_user(host, engine, monkeypatch):
    engine("docker", json.dumps(WITHOUT))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(NoGpusByEngine) as refused:
        named("docker -H unix:///run/user/1000/docker.sock run image", host, HOME="/home/u1")

    assert str(refused.value) == (
        "docker has no runtime amd (run 'amd-ctk runtime configure"
        " --config-path=/home/u1/.config/docker/daemon.json' and 'systemctl --user restart docker')"
    )


def test_podman_gets_the_runtime_that_it_has(host, engine, asked):
    engine("podman", "/usr/bin/amd-container-runtime")

    assert named("podman --log-level debug run image", host) == ("--runtime=amd",)
    assert asked() == [
        "--log-level debug --runtime=amd info --format {{.Host.OCIRuntime.Path}} {{.Host.ServiceIsRemote}}"
    ]


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("podman --root container run image", "--root container --runtime=amd info"),
        ("podman --root container container run image", "--root container --runtime=amd info"),
        ("podman --syslog container run image", "--syslog --runtime=amd info"),
    ],
)
def test_podman_is_asked_with_the_options_of_the_command(host, engine, asked, command, question):
    engine("podman", "/usr/bin/amd-container-runtime")

    named(command, host)

    assert [line.partition(" --format")[0] for line in asked()] == [question]


def test_a_podman_that_answers_late_is_not_taken_for_one_without_the_runtime(host, engine, monkeypatch, capfd):
    for module in (engine_answers, engine_options):
        monkeypatch.setattr(module, "ENGINE_SECONDS", 0.5)
    engine("podman", "/usr/bin/crun", first="exec sleep 600\n")

    assert named("podman run image", host) == ()
    assert "podman gave no answer within 0.5 seconds: if the container has no GPU, add --runtime=amd" in (
        capfd.readouterr().err
    )


def test_a_docker_that_is_podman_is_asked_as_podman(host, engine, asked):
    is_podman = (
        """[ "$*" = 'info --format {{json .}}' ] && { echo '{"host": {"ociRuntime": {"name": "crun"}}}'; exit; }\n"""
    )
    engine("docker", "/usr/bin/amd-container-runtime", first=is_podman)

    assert named("docker run image", host) == ("--runtime=amd",)
    assert asked()[1:] == ["--runtime=amd info --format {{.Host.OCIRuntime.Path}} {{.Host.ServiceIsRemote}}"]


def test_podman_docker_is_podman_by_its_script(host, engine):
    engine("podman", "/usr/bin/amd-container-runtime")
    engine("docker", "", first='exec podman "$@"\n')

    assert named("docker run --syslog image", host) == ("--runtime=amd",)
    assert named("docker run image", host, CONTAINER_HOST="ssh://far") == ()


def test_podman_without_the_runtime_gets_cdi_devices_or_is_refused(host, engine):
    engine("podman", "/usr/bin/crun", first=UNKNOWN)

    with pytest.raises(NoGpusByEngine) as refused:
        named("podman run image", host)
    with_spec(host)

    assert str(refused.value) == ("podman has no runtime amd (run 'sudo amd-ctk runtime configure --runtime=podman')")
    assert named("podman run image", host) == ("--device=amd.com/gpu=1", "--device=amd.com/gpu=2")


def test_a_default_runtime_of_podman_needs_no_option(host, engine):
    engine("podman", "/opt/bin/amd-container-runtime", first=UNKNOWN)

    assert named("podman run image", host) == ()


@pytest.mark.parametrize(
    "command",
    [
        "docker run --runtime=amd image",
        "docker run --runtime mine image",
        "docker run --gpus all image",
        "docker run --device /dev/kfd --device /dev/dri image",
        "docker run --device amd.com/gpu=0 image",
        "docker run -v /dev/dri:/dev/dri image",
        "docker run --privileged image",
        "docker -cfar run image",
        "docker -Htcp://far run image",
        "docker -DH=tcp://far run image",
        "docker --context=far run image",
        "docker -H ssh://far run image",
        "podman --remote run image",
        "podman -cfar run image",
        "podman --url=ssh://far run image",
        "podman --runtime=/opt/amd-container-runtime run image",
        "docker run --rm",
        "docker exec web run",
        "python3 train.py",
    ],
)
def test_commands_that_ask_themselves_or_go_elsewhere_are_left_alone(host, engine, asked, command):
    engine("docker", json.dumps(WITHOUT))
    engine("podman", "/usr/bin/crun", first=UNKNOWN)

    assert named(command, host) == ()
    assert asked() == []


@pytest.mark.parametrize(
    ("program", "name", "value"),
    [
        ("docker", "DOCKER_HOST", "tcp://far"),
        ("docker", "DOCKER_CONTEXT", "far"),
        ("podman", "CONTAINER_HOST", "ssh://far"),
    ],
)
def test_an_engine_that_the_environment_names_is_elsewhere(host, engine, capfd, program, name, value):
    engine("docker", json.dumps(WITHOUT))
    engine("podman", "/usr/bin/crun", first=UNKNOWN)

    option = "--runtime=amd" if program == "docker" else "--device amd.com/gpu=NUMBER"

    assert named(f"{program} run image", host, **{name: value}) == ()
    assert capfd.readouterr().err == (
        f"the command may go to an engine on another machine: if the container has no GPU, add {option}\n"
    )


def test_a_command_with_the_runtime_is_told_nothing_of_another_machine(host, capfd):
    assert named("docker run --runtime=amd image", host, DOCKER_HOST="tcp://far") == ()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("podman --url=unix:///run/p.sock", {}),
        ("podman", {"CONTAINER_HOST": "unix:///run/p.sock"}),
        ("podman --remote", {"CONTAINER_HOST": "unix:///run/p.sock"}),
        ("podman --remote=false", {"CONTAINER_HOST": "ssh://far"}),
        ("podman", {"DOCKER_HOST": "tcp://far"}),
    ],
)
def test_a_socket_of_podman_is_on_this_machine(host, engine, command, environment):
    engine("podman", "/usr/bin/crun", first=UNKNOWN)
    with_spec(host)

    assert named(f"{command} run image", host, **environment) == ("--device=amd.com/gpu=1", "--device=amd.com/gpu=2")


def test_a_service_of_podman_that_gives_no_gpu_is_refused_with_what_helps(host, engine):
    engine("podman", "/usr/bin/crun true", first=UNKNOWN)

    with pytest.raises(NoGpusByEngine, match="run 'sudo amd-ctk cdi generate': Podman's service takes no --runtime"):
        named("podman --url=unix:///run/p.sock run image", host)


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("docker --context=default", {}),
        ("docker -c default", {"DOCKER_CONTEXT": "far"}),
        ("docker", {"DOCKER_CONTEXT": "default"}),
        ("docker", {"CONTAINER_HOST": "ssh://far"}),
        ("docker", {"DOCKER_CONTEXT": "far", "DOCKER_HOST": "unix:///run/docker.sock"}),
        ("docker -H unix:///run/docker.sock", {"DOCKER_CONTEXT": "far", "DOCKER_HOST": "tcp://far"}),
    ],
)
def test_the_usual_context_of_docker_is_on_this_machine(host, engine, command, environment):
    engine("docker", json.dumps(DOCKER))

    assert named(f"{command} run image", host, **environment) == ("--runtime=amd",)


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("docker --context=default", {"DOCKER_HOST": "tcp://far"}),
        ("docker", {"DOCKER_CONTEXT": "default", "DOCKER_HOST": "tcp://far"}),
        ("docker --context far", {"DOCKER_HOST": "unix:///run/docker.sock"}),
        ("docker --context=", {"DOCKER_CONTEXT": "far"}),
        ("podman -c default", {}),
    ],
)
def test_the_usual_context_leads_where_docker_host_says(host, engine, asked, command, environment):
    engine("docker", json.dumps(DOCKER))
    engine("podman", "/usr/bin/crun", first=UNKNOWN)

    assert named(f"{command} run image", host, **environment) == ()
    assert asked() == []


@pytest.mark.parametrize("address", ["unix:///run/user/1000/docker.sock", "tcp://localhost:2375", "127.0.0.1:2375"])
def test_another_docker_of_this_machine_is_asked_too(host, engine, address):
    engine("docker", json.dumps(DOCKER))

    assert named("docker run image", host, DOCKER_HOST=address) == ("--runtime=amd",)
    assert named(f"docker -H {address} run image", host) == ("--runtime=amd",)


@pytest.mark.parametrize(
    "command",
    [
        "docker run --device vendor.com/nic=0 image",
        "docker run --device /dev/fuse image",
        "docker run -v /data:/data image",
    ],
)
def test_other_devices_and_directories_are_no_gpus(host, engine, command):
    engine("docker", json.dumps(DOCKER))

    assert named(command, host) == ("--runtime=amd",)


@pytest.mark.parametrize(
    ("command", "runtime"), [("docker run --runtime=runc image", "runc"), ("podman --runtime crun run image", "crun")]
)
def test_a_runtime_that_gives_no_gpu_is_refused(host, command, runtime):
    with pytest.raises(NoGpusByEngine) as refused:
        named(command, host)

    assert str(refused.value) == (f"the container runs under {runtime}, which gives it no GPU (write --runtime=amd)")


@pytest.mark.parametrize("output", ["", "{", "[]", '{"ServerErrors": ["Cannot connect"]}', "[" * 100_000])
def test_an_engine_that_says_nothing_of_runtimes_is_left_alone(host, engine, output):
    engine("docker", output)

    assert named("docker run image", host) == ()


def test_a_file_of_variables_is_not_read(host, engine, tmp_path):
    engine("docker", json.dumps(DOCKER))

    # The pipe of <(command) can be read once.
    assert named(f"docker run --env-file {tmp_path}/none image", host) == ("--runtime=amd",)


def test_podman_behind_the_client_of_docker_gets_cdi_devices_as_it_takes_no_runtime(engine, host):
    engine("docker", json.dumps({**DOCKER, "ProductLicense": "Apache-2.0", "DefaultRuntime": "crun"}))
    with pytest.raises(NoGpusByEngine, match="Podman's Docker API takes no runtime"):
        find_options(["docker", "run", "image"], host, {})

    engine("docker", json.dumps({**DOCKER, "ProductLicense": "Apache-2.0", "DefaultRuntime": "amd"}))
    assert named("docker run image", host) == ()
