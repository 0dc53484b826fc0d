"""The words of docker run and podman run."""

from __future__ import annotations

import os

import pytest

from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.run_words import is_engine_command, parse_run


def parse(line, **environment):
    return parse_run(line.split(), environment)


def test_everything_that_is_about_gpus_is_read():
    line = (
        "docker run --rm -it --runtime=amd -e AMD_VISIBLE_DEVICES=0-2 --env=HIP_VISIBLE_DEVICES=0"
        " --device /dev/kfd --device=/dev/dri:/dev/dri:rw -u 1000:1000 --group-add video --cap-add=CAP_SYS_ADMIN"
        " --gpus all --userns=host --name web -p 80:80 rocm/pytorch --runtime=other -e NOT=counted"
    )

    assert parse(line) == Container(
        engine="docker",
        environment=("AMD_VISIBLE_DEVICES=0-2", "HIP_VISIBLE_DEVICES=0"),
        devices=("/dev/kfd", "/dev/dri:/dev/dri:rw"),
        gpus=("all",),
        runtime="amd",
        capabilities=("SYS_ADMIN",),
        user="1000:1000",
        groups=("video",),
        user_namespace="host",
        image="rocm/pytorch",
        behind=("--runtime=other", "-e NOT=counted"),
    )


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ("-e A=1", ("A=1",)),
        ("-eA=1", ("A=1",)),
        ("-ite A=1", ("A=1",)),
        ("-e A=1 -e B=2 -e A=3", ("A=3", "B=2")),
        ("-e HOST", ("HOST=here",)),
        # It takes the variable of the image away.
        ("-e UNSET", ("UNSET",)),
    ],
)
def test_variables_are_read_in_every_spelling(words, environment):
    assert parse(f"docker run {words} image", HOST="here").environment == environment


def test_variables_of_a_file_come_before_those_of_the_command_line(tmp_path):
    file = tmp_path / "env"
    file.write_text("# none\nAMD_VISIBLE_DEVICES=all\nB=2\n")

    container = parse(f"docker run --env-file {file} -e AMD_VISIBLE_DEVICES=0 image")

    assert container.environment == ("AMD_VISIBLE_DEVICES=all", "B=2", "AMD_VISIBLE_DEVICES=0")


def test_a_file_of_variables_may_be_a_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"A=1\n")
    os.close(writer)

    assert parse(f"docker run --env-file /dev/fd/{reader} image").environment == ("A=1",)
    os.close(reader)


@pytest.mark.timeout(5)
def test_a_file_of_variables_that_never_ends_is_refused():
    with pytest.raises(ExplainError, match="the environment file /dev/zero cannot be read: it is too large"):
        parse("docker run --env-file /dev/zero image")


@pytest.mark.parametrize(
    "line",
    [
        "docker --context other container run --privileged=true image",
        "/usr/bin/podman create --privileged -- image",
        "podman --log-level debug run -q --privileged image",
    ],
)
def test_the_words_in_front_of_the_command_are_passed_over(line):
    container = parse(line)

    assert is_engine_command(line.split())
    assert (container.privileged, container.image) == (True, "image")


def test_podmans_runtime_stands_before_the_command():
    assert parse("podman --runtime=/opt/amd-container-runtime run image").runtime == "/opt/amd-container-runtime"


@pytest.mark.parametrize("line", ["docker", "docker ps", "docker run", "docker run -e", "podman run --rm -it"])
def test_words_that_start_no_container_are_refused(line):
    with pytest.raises(ExplainError):
        parse(line)


def test_a_compose_file_is_no_command():
    assert not is_engine_command(["compose.yaml", "web"])
    assert not is_engine_command([])


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ("", ["A=image", "B=image"]),
        ("--unsetenv A", ["B=image"]),
        ("--unsetenv-all -e C=1", ["C=1"]),
        ("--unsetenv A -e A=1", ["B=image", "A=1"]),
        ("--env-host -e B=1", ["A=caller", "B=1", "AX=caller"]),
        ("-e A*", ["A=caller", "B=image", "AX=caller"]),
        ("-e UNSET", ["A=image", "B=image"]),
    ],
)
def test_podman_leaves_out_and_passes_on_as_it_is_told(words, variables):
    container = parse(f"podman run {words} image", A="caller", AX="caller")

    assert container.replace(image_environment=("A=image", "B=image")).variables == variables


def test_docker_takes_a_variable_of_the_image_away_that_the_caller_does_not_have():
    container = parse("docker run -e A -e C=1 -e C=2 image")

    assert container.replace(image_environment=("A=image", "B=image")).variables == ["B=image", "C=2"]


@pytest.mark.parametrize("option", ["docker --tlscacert ca.pem", "podman --imagestore /images", "nerdctl -n k8s.io"])
def test_options_of_the_engine_stand_before_the_command(option):
    assert parse_run(f"{option} run -e AMD_VISIBLE_DEVICES=1 image".split(), {}).image == "image"


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("docker --context far", {}),
        ("docker -H tcp://far", {}),
        ("docker -cfar", {}),
        ("docker -Htcp://far", {}),
        ("podman --remote", {}),
        ("podman", {"CONTAINER_CONNECTION": "far"}),
        ("docker", {"DOCKER_HOST": "ssh://far"}),
    ],
)
def test_a_command_for_another_machine_is_explained_as_one_for_this(command, environment):
    assert parse_run([*command.split(), "run", "image"], environment).notes == (
        "the command may go to an engine on another machine; this is what one on this host would do",
    )


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("docker", {"DOCKER_HOST": "unix:///run/docker.sock"}),
        ("docker", {"DOCKER_CONTEXT": "default"}),
        ("docker --context default", {}),
        ("docker -H=unix:///run/docker.sock", {}),
        ("podman", {"CONTAINER_HOST": "unix:///run/podman.sock"}),
        ("nerdctl -H /run/containerd.sock", {"DOCKER_HOST": "ssh://far"}),
    ],
)
def test_a_socket_and_the_usual_context_are_on_this_machine(command, environment):
    assert parse_run([*command.split(), "run", "image"], environment).notes == ()


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("podman --url unix:///run/p.sock run --runtime=amd image", {}),
        ("podman --runtime=crun run image", {"CONTAINER_HOST": "unix:///run/p.sock"}),
    ],
)
def test_a_service_of_podman_takes_no_runtime(command, environment):
    with pytest.raises(ExplainError, match=r"^podman run: unknown flag: --runtime \(a service of Podman takes no"):
        parse_run(command.split(), environment)


@pytest.mark.parametrize(
    "option",
    [
        *("--detach-keys ctrl-p", "--blkio-weight-device /dev/sda:200", "--kernel-memory 1g"),
        *("--healthcheck-command true", "--healthcheck-interval 1s", "--healthcheck-retries 2"),
        *("--healthcheck-start-period 1s", "--healthcheck-timeout 1s"),
        *("--override-arch amd64", "--override-os linux", "--override-variant v8"),
        *("--log-level debug", "--cgroup-manager cgroupfs", "--root /images", "--max-workers 2", "--syslog", "--trace"),
    ],
)
def test_podman_takes_its_own_options_and_former_spellings_behind_run(option):
    container = parse(f"podman run {option} --privileged image")

    assert (container.privileged, container.image, container.unread) == (True, "image", ())


@pytest.mark.parametrize("option", ["hooks-dir", "runtime-flag", "default-mounts-file"])
def test_options_of_podman_that_may_change_a_container_are_named(option):
    assert parse(f"podman run --{option} x image").unread == (f"--{option}",)


def test_modules_of_podman_are_not_read_and_named():
    assert parse("podman --module=gpu.conf --module b run image").unread == ("--module gpu.conf", "--module b")


@pytest.mark.parametrize("option", ["healthcheck-interval", "log-level", "override-arch"])
def test_docker_refuses_behind_run_what_podman_alone_takes_there(option):
    with pytest.raises(ExplainError, match=rf"^docker run: unknown flag: --{option} "):
        parse(f"docker run --{option} x image")
