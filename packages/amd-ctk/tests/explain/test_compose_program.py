"""What is asked of the Compose of a machine, and for whose files; the program is a script."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from amd_ctk.explain import compose_program
from amd_ctk.explain.compose import read_service
from amd_ctk.explain.container import ExplainError
from amdgpu_discovery.host import Host

THIS_MACHINE = Host("/")
FILE = "services: {web: {image: own, extends: {service: base}}, base: {image: base}}\n"


@pytest.fixture
def place():
    """Return a directory that every user can enter."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


@pytest.fixture
def compose(place, monkeypatch):
    """Return a function that puts a Compose on this machine, and returns the path of a file for it."""
    programs = place / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/sbin:/usr/bin:/bin")

    def make(service, *, version="2.40.3", name="compose.yaml", ending=""):
        tree = json.dumps({"services": {"web": service}})
        (programs / "docker").write_text(
            f'#!/bin/sh\necho "$(id -u) $COMPOSE_EXPERIMENTAL_GIT_REMOTE $@" >>{place}/asked\n'
            f"[ \"$2\" = version ] && {{ echo {version}; exit; }}\n{ending}\ncat <<'END'\n{tree}\nEND\n"
        )
        (programs / "docker").chmod(0o755)
        (place / name).write_text(FILE)
        return str(place / name)

    return make


def asked(place):
    return (place / "asked").read_text().splitlines()


def test_compose_is_asked_without_fetching_and_its_answer_counts(compose, place):
    path = compose({"image": "i", "runtime": "amd", "environment": {"AMD_VISIBLE_DEVICES": "$$x", "B": None}})

    service = read_service(path, "web", {"B": "not again"}, THIS_MACHINE)

    assert (service.image, service.runtime, service.environment) == ("i", "amd", ("AMD_VISIBLE_DEVICES=$x", "B"))
    assert asked(place) == [
        f"{os.geteuid()} false compose version --short",
        f"{os.geteuid()} false compose --file={path} --profile=* config --format=json",
    ]


def test_overrides_beside_a_usual_file_count(compose, place):
    path = compose({"image": "i"})
    (place / "compose.override.yaml").write_text("services: {}\n")
    other = compose({"image": "i"}, name="other.yaml")

    read_service(path, "web", {}, THIS_MACHINE)
    read_service(other, "web", {}, THIS_MACHINE)

    first, second = (line for line in asked(place) if "config" in line)
    assert f"--file={path} --file={place}/compose.override.yaml --profile" in first
    assert f"--file={other} --profile" in second


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [1, 54321], ids=["an account", "no account"])
def test_root_reads_the_file_of_another_user_without_compose_which_could_be_a_program_of_that_user(
    compose, place, owner
):
    path = compose({"image": "i"})
    os.chown(path, owner, owner)

    service = read_service(path, "base", {}, THIS_MACHINE)

    assert service.image == "base"
    assert service.notes == (f"{path} belongs to another user, so it was read without asking Docker Compose",)
    assert not (place / "asked").exists()


def test_its_own_words_say_why_it_refuses_a_file(compose):
    complaint = "echo 'time=\"x\" level=warning' >&2; echo 'service web has neither an image nor a build' >&2; exit 15"
    path = compose({}, ending=complaint)

    with pytest.raises(ExplainError, match=r"Docker Compose refuses .*: service web has neither an image nor a build"):
        read_service(path, "web", {}, THIS_MACHINE)


def test_a_service_that_compose_does_not_list_is_named(compose):
    with pytest.raises(ExplainError, match=r"has no service db \(it has web\)"):
        read_service(compose({"image": "i"}), "db", {}, THIS_MACHINE)


@pytest.mark.parametrize(("version", "ending"), [("1.29.2", ""), ("", ""), ("2.40", "exec sleep 600")])
def test_without_an_answer_the_file_is_read_here(compose, monkeypatch, version, ending):
    monkeypatch.setattr(compose_program, "COMPOSE_SECONDS", 0.5)
    path = compose({"image": "i"}, version=version, ending=ending)

    assert read_service(path, "base", {}, THIS_MACHINE).image == "base"


def test_a_docker_that_hangs_is_not_asked_again(compose, monkeypatch, place):
    monkeypatch.setattr(compose_program, "COMPOSE_SECONDS", 0.5)
    path = compose({"image": "i"}, version="$(exec sleep 600)")

    assert read_service(path, "base", {}, THIS_MACHINE).is_engine_silent
    assert len(asked(place)) == 1


def test_for_another_host_no_program_is_asked(compose, place):
    path = compose({"image": "i"})

    assert read_service(path, "base", {}, Host(str(place))).image == "base"
    assert not (place / "asked").exists()


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("include: ['https://far/x.git']\nservices: {web: {image: i}}\n", "https://far/x.git"),
        ("include: [{path: ['a.yaml', 'oci://far/x:1']}]\nservices: {web: {image: i}}\n", "oci://far/x:1"),
        ("services: {web: {extends: {file: 'git@far:x.git', service: a}}}\n", "git@far:x.git"),
    ],
)
def test_parts_on_other_machines_are_named_and_not_fetched(compose, place, text, remote):
    path = compose({"image": "i"})
    Path(path).write_text(text)

    with pytest.raises(ExplainError, match=f"has a part at {remote}, which is not fetched here"):
        read_service(path, "web", {}, THIS_MACHINE)
    assert not (place / "asked").exists()


@pytest.mark.parametrize(("version", "is_read"), [("2.26.1-4", False), ("2.29.7", False), ("2.30.0", True)])
def test_names_of_devices_and_gpus_need_compose_2_30(compose, version, is_read):
    gpus = [{"driver": "cdi", "device_ids": ["amd.com/gpu=1"]}]
    path = compose({"image": "i", "devices": [{"source": "amd.com/gpu=0"}], "gpus": gpus}, version=version)
    if is_read:
        path = compose({"image": "i", "devices": ["amd.com/gpu=0"], "gpus": gpus}, version=version)

    service = read_service(path, "web", {}, THIS_MACHINE)

    assert service.devices == (("amd.com/gpu=0",) if is_read else ())
    assert service.gpus == (("driver=cdi,device=amd.com/gpu=1",) if is_read else ())
    assert (len(service.refusals), len(service.problems)) == ((0, 0) if is_read else (1, 1))
