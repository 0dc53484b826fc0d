"""Engines are asked about a container by its name."""

from __future__ import annotations

import pytest

from amd_ctk.explain import running
from amd_ctk.explain.running import Told, ask_engines

WEB = Told(container_id="docker-id", pid=7, runtime="runc", asks_gpus=True)


@pytest.fixture
def engines(tmp_path, monkeypatch):
    """Give both engines a program that knows the container web; return where podman keeps its own."""
    asked = {"docker": " runc :", "podman": ""}
    for name, pid in (("docker", 7), ("podman", 8)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\n[ "$6" = web ] && echo "{name}-id {pid}{asked[name]}"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    storage = tmp_path / "storage"
    monkeypatch.setattr(running, "_podman_storage", lambda: iter([str(storage)]))
    return storage


def test_every_engine_is_asked(engines):
    engines.mkdir()

    assert ask_engines("web") == [WEB, Told(container_id="podman-id", pid=8)]


def test_podman_that_was_never_used_is_left_alone(engines):
    assert ask_engines("web") == [WEB]


@pytest.mark.parametrize("name", ["other", "--help"])
def test_what_no_engine_knows_is_nothing(engines, name):
    engines.mkdir()

    assert ask_engines(name) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("id 0 amd cdi:", Told(container_id="id", pid=0, runtime="amd")),
        ("id 7 runc amd:", Told(container_id="id", pid=7, runtime="runc", asks_gpus=True)),
        ("id 7 runc cdi: :", Told(container_id="id", pid=7, runtime="runc", asks_gpus=True)),
        ("id 7", Told(container_id="id", pid=7)),
    ],
)
def test_a_request_for_gpus_is_told_apart_from_cdi_devices(engines, tmp_path, answer, told):
    (tmp_path / "docker").write_text(f"#!/bin/sh\necho '{answer}'\n")

    assert ask_engines("web") == [told]
