"""What engines say about themselves and about images, read from kept answers of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_ctk.engines import engine_answers
from amd_ctk.engines.engine_answers import ImageSettings, ask_image, ask_info

KEPT = Path(__file__).with_name("engine_answers")
INFO = json.loads((KEPT / "info.json").read_text(encoding="utf-8"))
IMAGES = json.loads((KEPT / "image.json").read_text(encoding="utf-8"))


@pytest.fixture
def engine(tmp_path):
    """Return a function that makes an engine which prints this."""

    def make(script):
        program = tmp_path / "engine"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return [str(program)]

    return make


def printing(text):
    return f"cat <<'END'\n{text}\nEND"


def test_docker_names_its_runtimes_and_their_programs(engine):
    info = ask_info(engine(printing(json.dumps(INFO["docker 20.10.24, client 28.2.2"]))))

    assert info.version == (20, 10, 24)
    assert info.runtimes["runc"] == "runc"
    assert info.default_runtime == "runc"
    assert (info.cdi_directories, info.is_podman, info.maps_users) == (None, False, False)


def test_docker_with_cdi_names_the_directories(engine):
    tree = {"ServerVersion": "28.5.2", "CDISpecDirs": ["/srv/cdi"], "SecurityOptions": ["name=userns"]}

    info = ask_info(engine(printing(json.dumps(tree))))

    assert info.cdi_directories == ("/srv/cdi",)
    assert info.maps_users


def test_podman_behind_the_client_of_docker_is_podman(engine):
    info = ask_info(engine(printing(json.dumps(INFO["podman 4.3.1 behind the client of docker 28.2.2"]))))

    assert (info.is_podman, info.version, info.default_runtime) == (True, (4, 3, 1), "crun")


def test_podman_describes_itself(engine):
    info = ask_info(engine(printing(json.dumps(INFO["podman 4.3.1"]))))

    assert (info.is_podman, info.is_service, info.version) == (True, False, (4, 3, 1))
    assert (info.default_runtime, info.runtime_path, info.cgroup_driver) == ("crun", "/usr/bin/crun", "cgroupfs")


@pytest.mark.parametrize("kept", IMAGES)
def test_an_image_names_its_user_and_its_variables(engine, kept):
    answer = ask_image(engine(printing(json.dumps(IMAGES[kept]))), "img:1")

    assert answer == ImageSettings(is_known=True, environment=("A=1",), user="10001:999")


def test_an_engine_that_does_not_know_the_image_knows_nothing_of_it(engine):
    assert ask_image(engine("echo 'Error: No such image: img:1' >&2; exit 1"), "img:1") == ImageSettings()


@pytest.mark.parametrize("said", ["null", "[1]", "", "{", '{"Env": null, "User": null}'])
def test_words_that_are_no_settings_are_none(engine, said):
    assert ask_image(engine(printing(said)), "img:1").environment == ()
    assert ask_info(engine(printing(said))).version == ()


def test_an_answer_that_comes_too_late_says_so(engine, monkeypatch):
    monkeypatch.setattr(engine_answers, "ENGINE_SECONDS", 0.2)

    assert ask_image(engine("exec sleep 60"), "img:1").late.endswith("/engine gave no answer within 0.2 seconds")
    assert ask_info(engine("exec sleep 60")).answer.is_late
