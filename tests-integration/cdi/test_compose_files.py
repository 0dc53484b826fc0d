"""Compose files that explain reads itself come to what the Compose of Debian 13 makes of them.

Its answers to files of variables are kept in packages/amd-ctk/tests/explain/compose, which AMD_EXPLAINED_DATA=1 writes
again.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from amd_ctk.explain.compose import read_service
from amd_ctk.explain.container import ExplainError
from amdgpu_discovery.host import Host
from support import compose_services, env_files
from support.debian_root import compose_root
from support.installed import require_root
from support.run_lines import CALLER, ENV_FILE_TEXT

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

DATA = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/compose/variables-2.26.json"
PLUGIN = "usr/libexec/docker/cli-plugins/docker-compose"
# What `docker compose` is where the plugin is installed.
DOCKER = '#!/bin/sh\nshift\nexec {plugin} "$@"\n'
THIS_MACHINE, OWN_READER = Host("/"), Host("/simulated")
SERVICE_OF_FILE = "services: {web: {image: i, env_file: [v.env]}}\n"


@pytest.fixture(scope="module")
def compose(tmp_path_factory):
    """Return the real program."""
    require_root()
    return compose_root("trixie") / PLUGIN


@pytest.fixture
def project(compose, tmp_path, monkeypatch):
    """Return a directory for files, on whose machine `docker compose` is that program."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(DOCKER.format(plugin=compose))
    (tmp_path / "bin/docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name in (*CALLER, *env_files.CALLER):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def read(path, name, host):
    """Return a service without the order of its variables, "" where it is refused."""
    try:
        service = read_service(str(path), name, dict(os.environ), host)
    except ExplainError:
        return ""
    return service.replace(environment=tuple(sorted(service.environment)))


def test_files_of_variables_come_to_what_compose_makes_of_them(compose, project):
    (project / "compose.yaml").write_text(SERVICE_OF_FILE)
    kept = []

    for text in env_files.make_env_files(300):
        (project / "v.env").write_bytes(text.encode())
        words = [compose, "--file", project / "compose.yaml", "config", "--format=json"]
        ended = subprocess.run(words, env=env_files.CALLER, capture_output=True, text=True, check=False)
        found = json.loads(ended.stdout)["services"]["web"].get("environment") if ended.returncode == 0 else None
        variables = {name: value.replace("$$", "$") for name, value in (found or {}).items()}
        kept.append({"text": text, "variables": variables if ended.returncode == 0 else None})

    if os.environ.get("AMD_EXPLAINED_DATA"):
        DATA.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")
    assert kept == json.loads(DATA.read_bytes())


def test_services_come_to_the_same_by_compose_and_by_the_reader_without_it(project, monkeypatch):
    (project / compose_services.ENV_FILE).write_text(ENV_FILE_TEXT)
    (project / ".env").write_text(compose_services.DEFAULTS)
    # Of these forms 2.26 leaves some out; how it reads them is that of later versions.
    monkeypatch.setattr("amd_ctk.explain.compose_program.FIRST_COMPOSE_WITH_GPUS", (2, 26))
    file, wrong, read_by_both = project / "compose.yaml", [], 0

    for service in (*compose_services.make_services(31, 150), *compose_services.make_doubly_asking()):
        file.write_text(service.text)
        with monkeypatch.context() as calling:
            for name, value in CALLER.items() if service.with_caller else ():
                calling.setenv(name, value)
            by_compose, by_itself = read(file, "main", THIS_MACHINE), read(file, "main", OWN_READER)
        read_by_both += bool(by_compose and by_itself)
        if by_compose != by_itself:
            wrong.append((service.text, by_compose, by_itself))

    assert wrong == []
    assert read_by_both > 90


def test_parts_in_other_files_profiles_and_overrides_are_read_by_compose(project):
    (project / "base.yaml").write_text("services: {base: {image: i, runtime: amd}}\n")
    (project / "more.yaml").write_text("services: {db: {image: d, privileged: true}}\n")
    (project / "compose.yaml").write_text(
        "include: [more.yaml]\nservices: {web: {extends: {file: base.yaml, service: base}, profiles: [gpu]}}\n"
    )
    (project / "compose.override.yaml").write_text("services: {web: {environment: [AMD_VISIBLE_DEVICES=1]}}\n")

    web, db = (read_service(str(project / "compose.yaml"), name, {}, THIS_MACHINE) for name in ("web", "db"))

    assert (web.runtime, web.environment, web.image) == ("amd", ("AMD_VISIBLE_DEVICES=1",), "i")
    assert db.privileged


@pytest.mark.parametrize("remote", ["https://127.0.0.1:9/x.git", "oci://127.0.0.1:9/x:1"])
def test_a_part_of_a_part_on_another_machine_is_not_fetched(project, remote):
    (project / "more.yaml").write_text(f"include: ['{remote}']\n")
    (project / "compose.yaml").write_text("include: [more.yaml]\nservices: {web: {image: i}}\n")

    with pytest.raises(ExplainError, match="remote resource is disabled"):
        read_service(str(project / "compose.yaml"), "web", {}, THIS_MACHINE)


def test_keys_that_this_compose_does_not_read_are_named(project):
    (project / "compose.yaml").write_text(
        "services:\n"
        "  one: {image: i, devices: ['amd.com/gpu=0', '/dev/kfd']}\n"
        "  two: {image: i, gpus: [{driver: cdi, device_ids: ['amd.com/gpu=0']}]}\n"
        "  three: {image: i, deploy: {resources: {reservations: {devices:"
        " [{driver: cdi, device_ids: ['amd.com/gpu=0'], capabilities: [gpu]}]}}}}\n"
    )

    one, two, three = (
        read_service(str(project / "compose.yaml"), name, {}, THIS_MACHINE) for name in ("one", "two", "three")
    )

    assert str(one.refusals[0]) == (
        "Compose 2.26.1 takes amd.com/gpu=0 for a path, which Docker refuses"
        " (write it below 'deploy:', or install Compose 2.30 or later)"
    )
    assert two.problems == (
        "Compose 2.26.1 leaves 'gpus:' out: write it below 'deploy:', or install Compose 2.30 or later",
    )
    assert (one.devices, two.gpus, two.devices) == (("/dev/kfd:/dev/kfd:rwm",), (), ())
    assert (three.devices, three.refusals, three.problems) == (("amd.com/gpu=0",), (), ())
