"""explain refuses what engines refuse, with their reason; and what they take, it explains."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.cdi.engine_devices import read_spec_files
from amd_ctk.explain import engine_spec, engine_view
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_spec import build_spec
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.errors import ToolkitError


@pytest.fixture
def refusal(host, monkeypatch):
    """Return a function that gives why a command is refused, "" where it is not."""
    made = host()
    Path(made.path("/etc/docker")).mkdir(parents=True)
    settings = {"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}, "features": {"cdi": True}}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps(settings), encoding="utf-8")

    def ask(engine, *words, version=()):
        for module in (engine_view, engine_spec):
            monkeypatch.setattr(module, "find_version", lambda *_: version)
        try:
            explained = explain_container(parse_run([engine, "run", *words, "rocm"], {}), made)
        except ToolkitError as error:
            return error.message
        return explained.plan.refusals[0].message if explained.plan.refusals else ""

    return ask


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--device=/dev/kfd:xyz", "docker refuses --device '/dev/kfd:xyz': xyz is not an absolute path"),
        ("--device=::rw", "docker refuses --device '::rw': bad format for path: ::rw"),
        ("--device=/dev/kfd:", "docker refuses --device '/dev/kfd:':  is not an absolute path"),
        ("--device=/dev/kfd:/dev/kfd:z", "docker refuses --device '/dev/kfd:/dev/kfd:z': bad mode specified: z"),
        ("--device=/a:/b:rw:x", "docker refuses --device '/a:/b:rw:x': bad format for path: /a:/b:rw:x"),
        ("--gpus=", "docker refuses --gpus '': EOF"),
        ("--gpus=1.5", "docker refuses --gpus '1.5': count must be an integer"),
        ("--gpus=foo=bar", "docker refuses --gpus 'foo=bar': unexpected key 'foo' in 'foo=bar'"),
        (
            "--gpus=driver=cdi,count=1",
            "--gpus driver=cdi,count=1: docker refuses it: unexpected count in CDI device request",
        ),
        ("--env==0", "docker refuses --env==0: invalid environment variable: =0"),
        ("--privileged=yes", 'invalid argument "yes" for "--privileged" flag'),
        ("--nosuch", "docker run: unknown flag: --nosuch"),
        ("--unsetenv=A", "docker run: unknown flag: --unsetenv"),
        ("--userns=keep-id", "docker refuses --userns=keep-id: --userns: invalid USER mode"),
        ("--user=-1", "docker refuses --user=-1: uids and gids must be in range 0-2147483647"),
        ("--runtime=AMD", "docker has no runtime 'AMD'"),
    ],
)
def test_docker_refuses(refusal, words, reason):
    assert refusal("docker", words, version=(26, 1)) == reason


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--device=/dev/kfd:xyz", "podman refuses --device '/dev/kfd:xyz': invalid device mode: xyz"),
        ("--device=/a:/b:rw:x", "podman refuses --device '/a:/b:rw:x': invalid device specification: /a:/b:rw:x"),
        ("--env==0", 'podman refuses --env==0: invalid variable: "=0"'),
        ("--link=a", "podman run: unknown flag: --link"),
        ("--ipc=bogus", "podman refuses --ipc=bogus: unrecognized namespace mode bogus passed"),
    ],
)
def test_podman_refuses(refusal, words, reason):
    assert refusal("podman", words, version=(5, 4)) == reason


@pytest.mark.parametrize(
    ("engine", "text", "reason"),
    [
        ("docker", b"=3\n", "no variable name on line '=3'"),
        ("docker", b"A =3\n", "variable 'A ' contains whitespaces"),
        ("podman", b"=3\n", 'invalid variable: "=3"'),
        ("docker", b"A=" + b"x" * 70_000, "a line is too long"),
    ],
)
def test_line_of_an_env_file_is_refused(refusal, tmp_path, engine, text, reason):
    (tmp_path / "variables").write_bytes(text)

    said = refusal(engine, f"--env-file={tmp_path}/variables")

    assert said == f"the environment file {tmp_path}/variables is refused: {reason}"


def test_byte_order_mark_is_left_out_by_docker_alone(tmp_path):
    (tmp_path / "variables").write_bytes(b"\xef\xbb\xbfAMD_VISIBLE_DEVICES=3\n")
    words = ["run", f"--env-file={tmp_path}/variables", "rocm"]

    assert parse_run(["docker", *words], {}).environment == ("AMD_VISIBLE_DEVICES=3",)
    assert parse_run(["podman", *words], {}).environment == ("\ufeffAMD_VISIBLE_DEVICES=3",)


def test_podman_takes_every_variable_of_a_beginning_from_its_caller(tmp_path, monkeypatch):
    monkeypatch.setenv("AMD_VISIBLE_DEVICES", "2")
    (tmp_path / "variables").write_text("AMD_V*\n", encoding="utf-8")

    container = parse_run(["podman", "run", f"--env-file={tmp_path}/variables", "rocm"], {})

    assert container.environment == ("AMD_VISIBLE_DEVICES=2",)


@pytest.mark.parametrize(("version", "starts"), [((20, 10), False), ((25, 0), True), ((26, 1), True), ((28, 5), True)])
def test_driver_cdi_hands_out_a_device_since_docker_25(host, amd_ctk, monkeypatch, version, starts):
    made = host()
    amd_ctk("cdi", "generate")
    Path(made.path("/etc/docker")).mkdir(parents=True)
    Path(made.path("/etc/docker/daemon.json")).write_text('{"features": {"cdi": true}}', encoding="utf-8")
    for module in (engine_view, engine_spec):
        monkeypatch.setattr(module, "find_version", lambda *_: version)

    explained = explain_container(Container(engine="docker", gpus=("driver=cdi,device=amd.com/gpu=1",)), made)

    assert explained.starts is starts
    assert [gpu.number for gpu in explained.usable] == ([1] if starts else [])


def test_podman_takes_a_rule_with_a_major_number_alone(host):
    spec = build_spec(Container(engine="podman", device_rules=("c 226 rwm",)), host())

    assert spec.refusals == ()
    rule = {"allow": True, "type": "c", "major": 226, "access": "rwm"}
    assert rule in spec.spec["linux"]["resources"]["devices"]


@pytest.fixture
def remapped(host):
    """Return a host whose Docker maps the users of containers."""
    made = host()
    Path(made.path("/etc/docker")).mkdir(parents=True)
    Path(made.path("/etc/docker/daemon.json")).write_text('{"userns-remap": "default"}', encoding="utf-8")
    return made


@pytest.mark.parametrize(("asked", "namespaces"), [("", [{"type": "user"}]), ("host", [])])
def test_daemon_that_maps_users_gives_containers_a_user_namespace(remapped, asked, namespaces):
    spec = build_spec(Container(engine="docker", user_namespace=asked), remapped)

    assert spec.spec["linux"]["namespaces"] == namespaces


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--privileged", "privileged mode is incompatible with user namespaces"),
        ("--pid=host", "cannot share the host PID namespace when user namespaces are enabled"),
        ("--network=host", "cannot share the host's network namespace when user namespaces are enabled"),
        ("--ipc=host", 'error mounting "mqueue" to rootfs at "/dev/mqueue"'),
    ],
)
def test_daemon_that_maps_users_refuses_what_is_shared_with_the_host(remapped, words, why):
    asked, in_host = (parse_run(["docker", "run", words, *more, "rocm"], {}) for more in ((), ("--userns=host",)))

    assert [*map(str, build_spec(asked, remapped).refusals)] == [f"docker refuses {words}: {why} (add --userns=host)"]
    assert build_spec(in_host, remapped).refusals == ()


@pytest.mark.parametrize("words", [["--net=host"], ["--network=name=host"], ["--network=none", "--network=host"]])
def test_the_network_of_the_host_has_several_names(words):
    assert parse_run(["docker", "run", *words, "rocm"], {}).host_namespaces == ("network",)


def test_a_directory_of_podman_is_no_name_of_an_image():
    asked = parse_run(["podman", "run", "--rootfs", "/srv/root:O", "true"], {})

    assert (asked.image, asked.refusals, asked.unread) == ("", (), ())


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a node")
def test_privileged_container_has_the_nodes_that_the_runtime_made(host):
    made = host()
    os.makedirs(made.path("/dev/amd-container-toolkit"))
    os.mknod(made.path("/dev/amd-container-toolkit/226:128"), 0o20660, os.makedev(226, 128))

    devices = build_spec(Container(engine="podman", privileged=True), made).spec["linux"]["devices"]

    assert "/dev/amd-container-toolkit/226:128" in [device["path"] for device in devices]


@pytest.mark.parametrize(
    "before",
    [
        ("--tlscacert", "/x"),
        ("--tlscacert=/x",),
        ("-Dl", "info"),
        ("-c", "default"),
        ("--config", "/x", "container"),
    ],
)
def test_options_in_front_of_dockers_command_are_passed_over(before):
    assert parse_run(["docker", *before, "run", "-eA=1", "rocm"], {}).environment == ("A=1",)


@pytest.mark.parametrize("before", [("--imagestore", "/x"), ("--tls-ca", "/x"), ("--module", "m"), ("--remote=false",)])
def test_options_in_front_of_podmans_command_are_passed_over(before):
    assert parse_run(["podman", *before, "run", "-eA=1", "rocm"], {}).environment == ("A=1",)


def test_option_in_front_of_the_command_that_the_engine_does_not_know_is_refused():
    with pytest.raises(ToolkitError, match="podman: unknown flag: --tlscacert"):
        parse_run(["podman", "--tlscacert=/x", "run", "rocm"], {})


PANIC = "panic: runtime error: index out of range [0] with length 0"


# Podman 4.3.1 and 5.4.2.
@pytest.mark.parametrize(
    ("device", "before_5", "later"),
    [
        ("/dev/kfd:", PANIC, ""),
        ("/dev/kfd::rw", PANIC, ""),
        ("/dev/kfd::", "invalid device mode: ", "invalid device mode: "),
        ("/dev/kfd:/dev/kfd:", "invalid device mode: ", "invalid device mode: "),
        # A directory may have an empty mode.
        ("/dev/dri:/dev/dri:", "", ""),
        ("/dev/dri::", "", ""),
    ],
)
def test_podman_4_ends_with_a_trace_at_an_empty_target(device, before_5, later):
    for version, why in (((4, 3, 1), before_5), ((5, 4, 2), later)):
        refusals = parse_run(["podman", "run", "--device", device, "rocm"], {}, version=version).refusals
        assert [error.message for error in refusals] == [f"podman refuses --device {device!r}: {why}"] * bool(why)


# Docker 20.10, 26.1 and 28.5, and Podman 4.3.1.
@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("-v /opt:/opt -v /opt:/opt", False),
        ("-v /opt:/opt --volume=/opt:/opt --volume /opt:/opt", False),
        ("-v /opt:/opt -v /opt/:/opt", True),
        ("-v /opt:/opt -v /opt:/opt/", True),
        ("-v /opt:/opt -v /usr:/opt", True),
        ("--mount type=bind,source=/opt,target=/opt --mount type=bind,source=/opt,target=/opt", True),
    ],
)
def test_the_same_volume_in_the_same_words_is_one(engine, words, is_refused):
    refusals = parse_run([engine, "run", *words.split(), "rocm"], {}).refusals

    assert [error.message for error in refusals] == [f"{engine} refuses /opt: duplicate mount destination"] * is_refused


def test_podman_4_takes_a_list_of_environment_files_that_may_be_empty(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name.upper()}=1\n")
    several = f"--env-file={tmp_path}/a,{tmp_path}/b"

    assert parse_run(["podman", "run", "--env-file=", several, "rocm"], {}, version=(4, 3, 1)).environment == (
        "A=1",
        "B=1",
    )
    for words in ("--env-file=", several):
        with pytest.raises(ToolkitError, match="cannot be read"):
            parse_run(["podman", "run", words, "rocm"], {}, version=(5, 4, 2))


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_every_name_that_cdi_generate_writes_is_taken(host, amd_ctk, engine):
    made = host("mi300x-8-cpx")
    amd_ctk("cdi", "generate")
    names = [name for files in read_spec_files(made) for file in files for name in file.names]

    assert any(":" in name for name in names)
    for name in names:
        assert parse_run([engine, "run", "--device", name, "rocm"], {}).refusals == ()
