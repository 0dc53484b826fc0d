"""What explain says of command lines, services and pods, beside what engines and the runtime made of them.

tests-integration/cdi asked the engines: test_explained.py, test_explained_compose.py and test_explained_kube.py write
the files in engines/, compose/ and kube/ again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.explain import engine_spec, engine_view, kube
from amd_ctk.explain.compose import read_service
from amd_ctk.explain.container import ExplainError
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from support import compose_services
from support.about_gpus import differences
from support.kube_files import Pod, containers_conf
from support.run_lines import CALLER, ENV_FILE, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES, NAME_OF_TWO_FILES, Line

ENGINES = sorted(Path(__file__).with_name("engines").glob("*.json"))
PODS = sorted(Path(__file__).with_name("kube").glob("*.json"))
COMPOSE = Path(__file__).with_name("compose") / "compose-2.40.json"
VERSIONS = {"docker-20": (20, 10), "docker-26": (26, 1), "docker-28": (28, 5)}
AMD_RUNTIME = "/usr/bin/amd-container-runtime"
KFD = 510


@pytest.fixture
def machine(sleeping_host, amd_ctk):
    """Return a host as the box of an engine is: its nodes are those of GPUs, and two files define one CDI name."""
    made = sleeping_host
    os.unlink(made.path("/dev/dri/card0"))
    amd_ctk("cdi", "generate")
    for name in ("one", "two"):
        Path(made.path(f"/etc/cdi/{name}.json")).write_text(NAME_OF_TWO_FILES, encoding="utf-8")
    for directory in ("/etc/docker", "/box"):
        Path(made.path(directory)).mkdir(parents=True)
    Path(made.path("/box/recorder")).touch()
    runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
    settings = {"runtimes": runtimes, "default-runtime": "recorder", "features": {"cdi": True}}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps(settings), encoding="utf-8")
    return made


def command_of(engine, line, env_file):
    words = [word.replace(ENV_FILE, str(env_file)) for word in line.words]
    if engine == "docker":
        return ["docker", "run", *(["--runtime=amd"] if line.with_runtime else []), *words]
    return ["podman", f"--runtime={AMD_RUNTIME if line.with_runtime else '/box/recorder'}", "run", *words]


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
@pytest.mark.needs("root")
def test_explain_says_what_the_engine_did(machine, tmp_path, monkeypatch, path):
    engine, _, version = path.stem.partition("-")
    for module in (engine_view, engine_spec):
        monkeypatch.setattr(module, "find_version", lambda *_: VERSIONS.get(path.stem) or version_of(version))
    for name in CALLER:
        monkeypatch.delenv(name, raising=False)
    env_file = tmp_path / "variables"
    env_file.write_text(ENV_FILE_TEXT, encoding="utf-8")
    wrong = []

    for entry in json.loads(path.read_bytes()):
        line = Line(*entry["line"])
        with monkeypatch.context() as calling:
            for name, value in CALLER.items() if line.with_caller else ():
                calling.setenv(name, value)
            container = parse_run(command_of(engine, line, env_file), CALLER if line.with_caller else {})
        image = IMAGE_VARIABLES if container.image == IMAGE else ()
        explanation = explain_container(container.replace(image_environment=image), machine)
        spec = explanation.plan.spec if explanation.starts else None
        if found := differences(entry["spec"], spec, kfd=KFD):
            wrong.append((line, found))

    assert wrong == []


@pytest.mark.needs("root")
def test_explain_says_what_compose_did(machine, tmp_path, monkeypatch):
    for module in (engine_view, engine_spec):
        monkeypatch.setattr(module, "find_version", lambda *_: VERSIONS["docker-28"])
    (tmp_path / compose_services.ENV_FILE).write_text(ENV_FILE_TEXT, encoding="utf-8")
    (tmp_path / ".env").write_text(compose_services.DEFAULTS, encoding="utf-8")
    for name in CALLER:
        monkeypatch.delenv(name, raising=False)
    file, wrong = tmp_path / "compose.yaml", []

    for entry in json.loads(COMPOSE.read_bytes()):
        text, with_caller = entry["service"]
        file.write_text(text, encoding="utf-8")
        with monkeypatch.context() as calling:
            for name, value in CALLER.items() if with_caller else ():
                calling.setenv(name, value)
            caller = CALLER if with_caller else {}
            spec = explain_described(machine, lambda caller=caller: read_service(str(file), "main", caller, machine))
        if found := differences(entry["spec"], spec, kfd=KFD):
            wrong.append((text, with_caller, found))

    assert wrong == []


def explain_described(machine, read):
    """Return the spec that explain expects of what `read` returns, None where it does not start."""
    try:
        container = read()
    except ExplainError:
        return None
    image = IMAGE_VARIABLES if container.image == IMAGE else ()
    explanation = explain_container(container.replace(image_environment=image), machine)
    return explanation.plan.spec if explanation.starts else None


@pytest.mark.parametrize("path", PODS, ids=lambda path: path.stem)
@pytest.mark.needs("root")
def test_explain_says_what_kube_play_did(machine, tmp_path, monkeypatch, path):
    for module in (engine_view, engine_spec, kube):
        monkeypatch.setattr(module, "find_version", lambda *_: version_of(path.stem.partition("-")[2]))
    configuration = Path(machine.path("/etc/containers/containers.conf"))
    configuration.parent.mkdir(parents=True)
    file, wrong = tmp_path / "pod.yaml", []

    for entry in json.loads(path.read_bytes()):
        pod = Pod(*entry["pod"])
        file.write_text(pod.text, encoding="utf-8")
        configuration.write_text(containers_conf(with_runtime=pod.with_runtime), encoding="utf-8")
        spec = explain_described(machine, lambda: kube.read_pod(str(file), "main", machine))
        if found := differences(entry["spec"], spec, kfd=KFD):
            wrong.append((pod, found))

    assert wrong == []


def version_of(text):
    return tuple(map(int, text.split(".")))
