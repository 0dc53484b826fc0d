"""Engines still answer what is kept of them to commands with images, groups, drivers, CDI directories and volumes.

packages/amd-ctk/tests/explain/test_image_lines.py compares explain with the kept answers, which AMD_EXPLAINED_DATA=1
writes again.
"""

from __future__ import annotations

import json
import os
from itertools import groupby

import pytest

from support.image_lines import DIRECTORIES, LINES, SEED, make_image_lines, other_specs, pack_images
from support.kept_answers import answer_of, read_answers, write_answers, write_version
from support.recorded import ENGINES

# A busy machine takes its time for hundreds of containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(7200)]

# This Docker refuses a file that names directories of CDI specs.
WITHOUT_DIRECTORIES = ("docker-20",)
DAEMON_JSON = "/etc/docker/daemon.json"
CONTAINERS_CONF = "/etc/containers/containers.conf.d/90-box.conf"
STOP_DOCKER = 'pid=$(cat /run/docker.pid) && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done'


@pytest.mark.parametrize("name", ENGINES)
def test_engine_answers_commands_with_images_as_it_did(recorded, name):
    here = recorded(name)
    pack_images(here.box.share / "images.tar")
    here.box(*here.words, "load", "--quiet", "--input=/box/images.tar")
    for path, text in other_specs().items():
        here.box.write(path, text.encode())
    has_directories = name not in WITHOUT_DIRECTORIES
    lines = make_image_lines(SEED, LINES, is_podman=here.engine == "podman", has_directories=has_directories)
    answers = []

    for directories, group in groupby(lines, lambda line: line.directories):
        set_directories(here, DIRECTORIES[directories])
        for line in group:
            command = here.command(line.words, line.before, with_runtime=line.with_runtime)
            spec, printed = here.ask_engine([*line.launcher, *command], with_caller=line.with_caller)
            answers.append(answer_of(line, spec, printed))
    set_directories(here, [])

    compare(f"images-{name}", answers, here)


def set_directories(here, directories):
    """Name the directories of CDI specs in the engine's file, and restart Docker."""
    if here.engine == "podman":
        text = f"[engine]\ncdi_spec_dirs = {json.dumps(directories)}\n" if directories else ""
        here.box.write(CONTAINERS_CONF, text.encode())
        return
    known = json.loads(here.box("cat", DAEMON_JSON).stdout)
    wanted = {**known, "cdi-spec-dirs": directories}
    if not directories:
        del wanted["cdi-spec-dirs"]
    if wanted != known:
        here.box.write(DAEMON_JSON, json.dumps(wanted).encode())
        here.box("sh", "-c", STOP_DOCKER)
        here.box.start("dockerd", "--ip6tables=false")
        here.box.wait_until("docker", "version")


def compare(name, answers, here):
    if os.environ.get("AMD_EXPLAINED_DATA"):
        write_answers(name, answers)
        write_version(name, version_of(here))
    kept = read_answers(name)
    changed = [(before, now) for before, now in zip(kept, answers, strict=True) if before[:2] != now[:2]]
    assert changed == []


def version_of(here):
    if here.engine == "docker":
        return here.box("docker", "version", "--format={{.Server.Version}}").stdout.partition("+")[0].strip()
    return here.box("podman", "--version").stdout.split()[-1]
