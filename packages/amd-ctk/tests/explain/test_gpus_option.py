"""`--gpus`, as each version of Docker and Podman passes it on; the newest of both were read and not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_ctk.engines.engine_answers import EngineInfo
from amd_ctk.explain import engine_spec, engine_view
from amd_ctk.explain import explanation as explanation_module
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_spec import build_spec
from amd_ctk.explain.engine_view import translate_gpus
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run

NVIDIA = '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}'


@pytest.fixture
def translate(host, amd_ctk, monkeypatch):
    """Return a function that gives environment, devices, and whether the engine refuses."""
    made = host()

    def ask(engine, version, gpus, *, specs=()):
        monkeypatch.setattr(engine_view, "find_version", lambda *_: version)
        if specs:
            amd_ctk("cdi", "generate")
        if "nvidia" in specs:
            Path(made.path("/etc/cdi/nvidia.json")).write_text(NVIDIA, encoding="utf-8")
        found = translate_gpus(Container(engine=engine, gpus=(gpus,), image_environment=("A=1",)), made)
        return found.variables, found.devices, bool(found.refusals)

    return ask


@pytest.mark.parametrize(
    ("version", "gpus", "specs", "expected"),
    [
        ((28, 2), "all", ("amd",), (["A=1"], (), True)),
        ((28, 3), "all", ("amd",), (["A=1", "AMD_VISIBLE_DEVICES=all"], (), False)),
        ((29, 2), "2", ("amd",), (["A=1", "AMD_VISIBLE_DEVICES=0,1"], (), False)),
        ((29, 3), "all", ("amd",), (["A=1"], ("amd.com/gpu=all",), False)),
        ((29, 3), "2", ("amd",), (["A=1"], ("amd.com/gpu=0", "amd.com/gpu=1"), False)),
        ((29, 3), "device=3", ("amd",), (["A=1"], ("amd.com/gpu=3",), False)),
        ((29, 3), "device=amd.com/gpu=3", ("amd",), (["A=1"], ("amd.com/gpu=3",), False)),
        # What no spec has is handed on as a variable.
        ((29, 3), "device=9", ("amd",), (["A=1", "AMD_VISIBLE_DEVICES=9"], (), False)),
        ((29, 3), "5", ("amd",), (["A=1", "AMD_VISIBLE_DEVICES=0,1,2,3,4"], (), False)),
        # Without a spec of AMD, and beside one of NVIDIA, it falls back to the variable.
        ((29, 3), "all", (), (["A=1", "AMD_VISIBLE_DEVICES=all"], (), False)),
        ((29, 3), "all", ("amd", "nvidia"), (["A=1", "AMD_VISIBLE_DEVICES=all"], (), False)),
    ],
)
def test_docker_makes_a_variable_or_cdi_devices_of_it(translate, version, gpus, specs, expected):
    assert translate("docker", version, gpus, specs=specs) == expected


@pytest.mark.parametrize(
    ("version", "specs", "devices", "is_refused"),
    [
        ((4, 3), ("amd",), (), False),
        ((5, 8), ("amd",), ("nvidia.com/gpu=all",), False),
        ((6, 0), ("amd",), ("amd.com/gpu=all",), False),
        # NVIDIA's come first.
        ((6, 0), ("amd", "nvidia"), ("nvidia.com/gpu=all",), False),
        ((6, 0), (), (), True),
    ],
)
def test_podman_makes_a_cdi_device_of_it(translate, version, specs, devices, is_refused):
    assert translate("podman", version, "all", specs=specs) == (["A=1"], devices, is_refused)


@pytest.fixture
def write_daemon_json(host):
    """Return a function that writes daemon.json of a host."""
    made = host()

    def write(text):
        Path(made.path("/etc/docker")).mkdir(parents=True)
        Path(made.path("/etc/docker/daemon.json")).write_text(text, encoding="utf-8")
        return made

    return write


@pytest.mark.parametrize(
    ("version", "text", "refusal"),
    [
        ((20, 10), '{"features": {"cdi": true}}', "Docker 20.10 has no CDI"),
        ((26, 1), "{}", "Docker's CDI is off"),
        ((26, 1), '{"features": {"cdi": true}}', ""),
        ((28, 2), "{}", ""),
        ((28, 2), '{"features": {"cdi": false}}', "Docker's CDI is off"),
        # An engine that is not known is taken for a new one.
        ((), "{}", ""),
        ((), '{"features": {"cdi": false}}', "Docker's CDI is off"),
        ((28, 2), "[", ""),
    ],
)
def test_docker_without_cdi_refuses_the_device(write_daemon_json, amd_ctk, monkeypatch, version, text, refusal):
    made = write_daemon_json(text)
    amd_ctk("cdi", "generate")
    monkeypatch.setattr(engine_spec, "find_version", lambda *_: version)
    container = Container(engine="docker", devices=("amd.com/gpu=0",))

    said = [error.message for error in build_spec(container, made).refusals]

    assert said == [refusal] * bool(refusal)


def test_with_cdi_off_docker_makes_a_variable_of_gpus(write_daemon_json, amd_ctk, monkeypatch):
    made = write_daemon_json('{"features": {"cdi": false}}')
    amd_ctk("cdi", "generate")
    monkeypatch.setattr(engine_view, "find_version", lambda *_: (29, 3))

    found = translate_gpus(Container(engine="docker", gpus=("all",)), made)

    assert (found.variables, found.devices) == (["AMD_VISIBLE_DEVICES=all"], ())


@pytest.mark.parametrize(
    ("engine", "version", "is_read"),
    [
        ("docker", (28, 5), False),
        ("podman", (5, 8), False),
        # Of later ones, of others, and of an engine that is not known, nobody knows.
        ("docker", (29, 3), True),
        ("nerdctl", (2, 1), True),
        ("docker", (), True),
    ],
)
def test_a_spec_that_is_too_new_for_the_engine_gives_no_gpu(host, amd_ctk, monkeypatch, engine, version, is_read):
    made = host()
    amd_ctk("cdi", "generate")
    spec = Path(made.path("/etc/cdi/amd.json"))
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "cdiVersion": "1.1.0"}), encoding="utf-8")
    monkeypatch.setattr(engine_spec, "find_version", lambda *_: version)

    built = build_spec(Container(engine=engine, devices=("amd.com/gpu=0",)), made)

    refusal = (
        f"--device amd.com/gpu=0: the engine leaves {spec} out, which has version 1.1.0 of CDI"
        " ('amd-ctk doctor' prints the command that writes one that it reads)"
    )
    assert [str(error) for error in built.refusals] == [refusal] * (not is_read)
    assert bool(built.spec["linux"]["devices"]) is is_read


DROPS = (
    "Podman's Docker API drops {}: start it with 'podman --runtime amd system service', or request"
    " driver=cdi,device=amd.com/gpu=0"
)


# With the API of Podman 4.3.1, 5.4.2 and 5.8.6, each of these containers is made without a word.
@pytest.mark.parametrize("socket", ["/run/podman/podman.sock", "/run/user/1000/podman/podman.sock"])
@pytest.mark.parametrize(
    ("words", "problems"),
    [
        ("--runtime=amd -e AMD_VISIBLE_DEVICES=all", [DROPS.format("--runtime=amd")]),
        ("--runtime=nosuch", [DROPS.format("--runtime=nosuch")]),
        ("--gpus all", [DROPS.format("--gpus all")]),
        ("--gpus driver=amd,count=1", [DROPS.format("--gpus driver=amd,count=1")]),
        ("--gpus driver=cdi,count=1", [DROPS.format("--gpus driver=cdi,count=1")]),
        ("--gpus driver=cdi", [DROPS.format("--gpus driver=cdi")]),
        (
            "-e AMD_VISIBLE_DEVICES=0",
            [f"AMD_VISIBLE_DEVICES is not read: {DROPS.format('').replace('drops :', 'takes no runtime:')}"],
        ),
    ],
)
def test_podman_behind_the_client_of_docker_drops_the_runtime(sleeping_host, socket, words, problems):
    container = parse_run(["docker", "run", *words.split(), "img"], {"DOCKER_HOST": f"unix://{socket}"})

    explanation = explain_container(container, sleeping_host)

    assert (list(explanation.problems), explanation.lacks_gpus) == (problems, True)


def test_podman_behind_the_client_of_docker_takes_cdi_devices(sleeping_host, amd_ctk):
    amd_ctk("cdi", "generate")
    words = ["docker", "run", "--gpus", "driver=cdi,device=amd.com/gpu=0", "img"]

    explanation = explain_container(parse_run(words, {"DOCKER_HOST": "unix:///run/podman/podman.sock"}), sleeping_host)

    assert (explanation.problems, len(explanation.usable)) == ((), 1)


# Podman 5.4.2 and 5.8.6 answer `docker info` with their version, take CDI devices and read their own files; Podman
# 4.3.1 makes the container without the device.
@pytest.mark.parametrize(
    ("words", "version", "used", "problems"),
    [
        ("--device=amd.com/gpu=0", (5, 4, 2), 1, []),
        ("--gpus driver=cdi,device=amd.com/gpu=0", (5, 8, 6), 1, []),
        (
            "--gpus driver=cdi,device=amd.com/gpu=0",
            (4, 3, 1),
            0,
            [DROPS.format("--gpus driver=cdi,device=amd.com/gpu=0")],
        ),
    ],
)
def test_the_version_of_podman_behind_the_client_is_not_dockers(
    sleeping_host, amd_ctk, monkeypatch, words, version, used, problems
):
    amd_ctk("cdi", "generate")
    info = EngineInfo(version=version, is_podman=True)
    monkeypatch.setattr(explanation_module, "add_info", lambda one, _: one.replace(info=info, is_podman_api=True))

    explanation = explain_container(parse_run(["docker", "run", *words.split(), "img"], {}), sleeping_host)

    assert (len(explanation.usable), list(explanation.problems)) == (used, problems)
    assert explanation.starts


@pytest.mark.parametrize(
    ("options", "words", "starts", "used"),
    [
        ("--add-runtime=amd=/usr/bin/amd-container-runtime", "--runtime=amd -e AMD_VISIBLE_DEVICES=all", True, 4),
        ("--add-runtime amd=/usr/bin/amd-container-runtime --default-runtime=amd", "-e AMD_VISIBLE_DEVICES=0", True, 1),
        ("", "--runtime=amd -e AMD_VISIBLE_DEVICES=all", False, 0),
        ("--userns-remap=default", "--device=/dev/kfd --device=/dev/dri", True, 0),
        ("--userns-remap=default", "--privileged", False, 0),
    ],
)
def test_options_of_dockerd_count_as_its_file_does(sleeping_host, options, words, starts, used):
    unit = Path(sleeping_host.path("/etc/systemd/system/docker.service"))
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(f"[Service]\nExecStart=/usr/sbin/dockerd -H fd:// {options}\n")

    explanation = explain_container(parse_run(["docker", "run", *words.split(), "img"], {}), sleeping_host)

    assert (explanation.starts, len(explanation.usable) * explanation.starts) == (starts, used)
