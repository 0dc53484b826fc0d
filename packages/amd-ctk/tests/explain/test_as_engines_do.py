"""What explain says of command lines and services, beside what engines and the runtime made of them.

tests-integration/cdi asked the engines: test_explained.py and test_explained_compose.py write the files in engines/ and
compose/ again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.explain import engine_spec, engine_view
from amd_ctk.explain.compose import read_service
from amd_ctk.explain.errors import ExplainError
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from support import compose_services
from support.about_gpus import differences
from support.run_lines import CALLER, ENV_FILE, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES, NAME_OF_TWO_FILES, Line

ENGINES = sorted(Path(__file__).with_name("engines").glob("*.json"))
COMPOSE = Path(__file__).with_name("compose") / "compose-2.40.json"
VERSIONS = {"docker-20": (20, 10), "docker-26": (26, 1), "docker-28": (28, 5)}
AMD_RUNTIME = "/usr/bin/amd-container-runtime"
KFD = 510


@pytest.fixture
def machine(host, amd_ctk):
    """Return a host as the box of an engine is: its nodes are those of GPUs, and two files define one CDI name."""
    made = host()
    os.unlink(made.path("/dev/dri/card0"))
    amd_ctk("cdi", "generate")
    for name in ("one", "two"):
        Path(made.path(f"/etc/cdi/{name}.json")).write_text(NAME_OF_TWO_FILES, encoding="utf-8")
    Path(made.path("/etc/docker")).mkdir(parents=True)
    runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
    settings = {"runtimes": runtimes, "default-runtime": "recorder"}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps(settings), encoding="utf-8")
    return made


def command_of(engine, line, env_file):
    words = [word.replace(ENV_FILE, str(env_file)) for word in line.words]
    if engine == "docker":
        return ["docker", "run", *(["--runtime=amd"] if line.with_runtime else []), *words]
    return ["podman", f"--runtime={AMD_RUNTIME if line.with_runtime else '/box/recorder'}", "run", *words]


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
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
            spec = explain_service(machine, str(file), CALLER if with_caller else {})
        if found := differences(entry["spec"], spec, kfd=KFD):
            wrong.append((text, with_caller, found))

    assert wrong == []


def explain_service(machine, file, environment):
    """Return the spec that explain expects of a service, None where it does not start."""
    try:
        container = read_service(file, "main", environment)
    except ExplainError:
        return None
    image = IMAGE_VARIABLES if container.image == IMAGE else ()
    explanation = explain_container(container.replace(image_environment=image), machine)
    return explanation.plan.spec if explanation.starts else None


def version_of(text):
    return tuple(map(int, text.split(".")))
