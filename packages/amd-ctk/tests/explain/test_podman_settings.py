"""What explain says of containers that get devices and variables of Podman's files, beside Podman's own answers.

tests-integration/cdi/test_podman_settings.py asked Podman, and writes words/settings-*.json again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_ctk.engines.engine_answers import EngineInfo
from amd_ctk.explain import explanation as explanation_module
from amd_ctk.explain import kube, podman_settings
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.kube import read_pod
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.command_line.programs import parse_version
from amdgpu_discovery.errors import ToolkitError
from support.about_gpus import differences
from support.kept_answers import read_answers, read_versions
from support.podman_settings import (
    FILES,
    IMAGES,
    POD,
    SOCKET,
    OtherLine,
    SettingsLine,
    file_text,
    pod_text,
)
from support.recorder import AMD_RUNTIME, KFD


@pytest.fixture
def machine(sleeping_host, amd_ctk):
    """Return the host that the box of the engines shows, with a CDI spec."""
    amd_ctk("cdi", "generate")
    for path in ("/box/recorder", *FILES):
        Path(sleeping_host.path(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(sleeping_host.path(path)).touch()
    return sleeping_host


def write_files(line, host):
    for path, text in zip(FILES, line.texts, strict=True):
        Path(host.path(path)).write_text(file_text(text), encoding="utf-8")


def spec_of(container, line, host):
    explanation = explain_container(container.replace(image_environment=IMAGES[line.image]), host)
    return json.loads(json.dumps(explanation.plan.spec).replace(host.root, "")) if explanation.starts else None


def explain(line, host, version):
    """Return the spec that explain expects of Podman, None if the container does not start."""
    write_files(line, host)
    runtime = AMD_RUNTIME if line.with_runtime else "/box/recorder"
    try:
        container = parse_run(
            ["podman", f"--runtime={runtime}", "run", *line.words, line.image, "true"], {}, version=version
        )
        return spec_of(container, line, host)
    except ToolkitError:
        return None


@pytest.mark.parametrize("engine", ["podman-4.3", "podman-5.4", "podman-5.8"])
def test_explain_adds_what_podman_adds(machine, monkeypatch, engine):
    version = parse_version(read_versions()[f"settings-{engine}"])
    monkeypatch.setattr(podman_settings, "find_version", lambda *_: version)
    answers = read_answers(f"settings-{engine}")
    assert len(answers) == 200

    wrong = []
    for answer in answers:
        line = SettingsLine(*answer.asked)
        if found := differences(answer.spec, explain(line, machine, version), kfd=KFD):
            wrong.append((line, answer.reason, found))

    assert wrong == []


def explain_other(line, host, path):
    """Return the spec that explain expects of Podman for Docker's client or for a pod's file."""
    write_files(line, host)
    if line.way != POD:
        return spec_of(parse_run(["docker", "-H", SOCKET, "run", *line.words, line.image, "true"], {}), line, host)
    path.write_text(pod_text(line), encoding="utf-8")
    return spec_of(read_pod(str(path), "main", host), line, host)


@pytest.mark.parametrize("engine", ["podman-4.3", "podman-5.4", "podman-5.8"])
def test_explain_adds_what_podman_adds_for_dockers_client_and_for_pods(machine, monkeypatch, tmp_path, engine):
    version = parse_version(read_versions()[f"made-{engine}"])
    info = EngineInfo(version=version, is_podman=True)
    monkeypatch.setattr(podman_settings, "find_version", lambda *_: version)
    monkeypatch.setattr(kube, "find_version", lambda *_: version)
    monkeypatch.setattr(explanation_module, "add_info", lambda one, _: one.replace(info=info))
    answers = read_answers(f"made-{engine}")
    assert len(answers) == 80

    wrong = []
    for answer in answers:
        line = OtherLine(*answer.asked)
        if found := differences(answer.spec, explain_other(line, machine, tmp_path / "pod.json"), kfd=KFD):
            wrong.append((line, answer.reason, found))

    assert wrong == []
