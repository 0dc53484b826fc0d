"""Engines are asked about a container by its name."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from amd_ctk.cli.offers import containers
from amd_ctk.doctor.facts.inside import NoContainer, find_first_process
from amd_ctk.engines import engine_answers
from amd_ctk.engines.engine_words import engine_of
from amd_ctk.explain import engine_view, running
from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.engine_view import find_version
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amd_ctk.explain.running import EngineAnswers, InspectedContainer, add_image, ask_engines, read_running
from amd_ctk.explain.text import format_explanation
from amdgpu_discovery.command_line import programs
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host

WEB = InspectedContainer(container_id="docker-id", pid=7, runtime="runc", asks_gpus=True)


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
    monkeypatch.setattr(programs, "_podman_storage", lambda: iter([str(storage)]))
    return storage


def test_every_engine_is_asked(engines):
    engines.mkdir()

    assert ask_engines("web") == EngineAnswers(containers=(WEB, InspectedContainer(container_id="podman-id", pid=8)))


def test_podman_that_was_never_used_is_left_alone(engines):
    assert ask_engines("web") == EngineAnswers(containers=(WEB,))


def test_the_podman_of_root_is_another_one_than_that_of_a_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/var/lib/containers/storage")
    assert not running.is_set_up("podman")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert running.is_set_up("podman")


def test_the_names_that_tab_offers_set_no_podman_up(engines, tmp_path):
    for engine, name in (("docker", "web"), ("podman", "db")):
        (tmp_path / engine).write_text(f"#!/bin/sh\necho {name}\n")
    assert containers("") == ["web"]

    engines.mkdir()
    assert containers("") == ["db", "web"]


def test_the_version_of_podman_is_known_also_before_its_first_use(engines, tmp_path):
    (tmp_path / "podman").write_text('#!/bin/sh\n[ "$*" = --version ] && echo podman version 5.4.2\n')

    assert find_version(Container(engine="podman"), Host("/")) == (5, 4, 2)


@pytest.mark.parametrize(
    "container",
    [
        Container(engine="docker", gpus=("all",), devices=("amd.com/gpu=0",), image="image"),
        Container(engine="docker", gpus=("all",), devices=("amd.com/gpu=0",)),
        Container(engine="podman", devices=("amd.com/gpu=0",), image="image"),
    ],
)
def test_an_engine_that_hangs_is_asked_once(engines, tmp_path, monkeypatch, container):
    engines.mkdir()
    for engine in ("docker", "podman"):
        (tmp_path / engine).write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexec sleep 600\n')
    for module in (running, engine_view, engine_answers):
        monkeypatch.setattr(module, "ENGINE_SECONDS", 0.5)

    explain_container(add_image(container), Host("/"))

    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@pytest.fixture
def late(engines, tmp_path, monkeypatch):
    """Return a function that explains a command whose engine answers too late, on a host with the AMD runtime."""
    engines.mkdir()
    made = build_host(tmp_path / "host", "mi210-4")
    Path(made.path("/etc/docker")).mkdir(parents=True)
    runtimes = {"amd": {"path": "/usr/bin/amd-container-runtime"}}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps({"runtimes": runtimes}))
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(engine_answers, "ENGINE_SECONDS", 0.2)
    return lambda *words: explain_container(add_image(parse_run(["docker", "run", *words], {})), made)


def test_an_image_that_is_not_known_in_time_is_not_called_one_without_gpus(late):
    explanation = late("--runtime=amd", "img")

    assert format_explanation(explanation).splitlines() == [
        "Not known: which GPUs the container gets; docker gave no answer within 0.2 seconds",
        "note: the environment of the image img is not known here",
    ]
    assert not explanation.lacks_gpus


def test_a_version_that_is_not_known_in_time_decides_about_gpus(late):
    # Docker 29.3 gives the container CDI devices.
    explanation = late("--gpus=all", "img")

    assert (explanation.unknown, explanation.lacks_gpus) == ("docker gave no answer within 0.2 seconds", False)


@pytest.mark.parametrize(
    "words",
    [
        ["--gpus=driver=nosuch", "img"],
        ["--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0", "img"],
        ["--device=/dev/kfd", "--device=/dev/dri", "img"],
        ["img"],
        ["--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=9", "img"],
    ],
)
def test_an_answer_that_the_image_does_not_decide_is_known_without_it(late, words):
    assert late(*words).unknown == ""


def test_docker_is_asked_with_its_own_options_about_this_machine_only(engines, tmp_path):
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')

    for own in ("-H unix:///run/near.sock container", "-H tcp://far"):
        add_image(parse_run(["docker", *own.split(), "run", "image"], {}))

    assert [line.partition(" --format")[0] for line in (tmp_path / "asked").read_text().splitlines()] == [
        "-H unix:///run/near.sock image inspect",
        "image inspect",
    ]


def test_podman_docker_is_explained_as_podman_and_sets_none_up(engines, tmp_path):
    # As the package has it.
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexec /usr/bin/podman "$@"\n')

    assert parse_run(["docker", "--syslog", "run", "image"], {}).engine == "podman"
    assert add_image(parse_run(["docker", "run", "image"], {})).image_environment == ()
    assert ask_engines("web").containers == ()
    assert not (tmp_path / "asked").exists()


def test_a_docker_that_is_a_link_to_podman_is_podman(engines, tmp_path):
    (tmp_path / "docker").unlink()
    (tmp_path / "docker").symlink_to("podman")

    assert engine_of("docker") == "podman"


@pytest.mark.parametrize("path", ["/nowhere", "."])
def test_no_engine_in_a_directory_that_was_removed_is_podman(path, tmp_path, monkeypatch):
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    monkeypatch.setenv("PATH", path)
    removed.rmdir()

    assert engine_of("docker") == "docker"


@pytest.mark.parametrize("name", ["other", "--help"])
def test_a_container_that_no_engine_knows_has_no_answer(engines, name):
    engines.mkdir()

    assert ask_engines(name) == EngineAnswers()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("id 0 amd cdi:", InspectedContainer(container_id="id", pid=0, runtime="amd")),
        ("id 7 runc amd:", InspectedContainer(container_id="id", pid=7, runtime="runc", asks_gpus=True)),
        ("id 7 runc cdi: :", InspectedContainer(container_id="id", pid=7, runtime="runc", asks_gpus=True)),
        ("id 7", InspectedContainer(container_id="id", pid=7)),
    ],
)
def test_a_request_for_gpus_is_distinguished_from_cdi_devices(engines, tmp_path, answer, told):
    (tmp_path / "docker").write_text(f"#!/bin/sh\necho '{answer}'\n")

    assert ask_engines("web") == EngineAnswers(containers=(told,))


def test_an_engine_that_gives_no_answer_in_time_is_named(engines, tmp_path, monkeypatch):
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(running, "ENGINE_SECONDS", 0.2)

    assert ask_engines("web") == EngineAnswers(late="docker gave no answer within 0.2 seconds")


def test_the_error_says_which_engine_gave_no_answer(engines, tmp_path, monkeypatch):
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(running, "ENGINE_SECONDS", 0.2)

    with pytest.raises(NoContainer) as refused:
        find_first_process(Host(str(tmp_path)), "web", ask_engines("web"))

    assert str(refused.value) == (
        "no container web is running here; docker gave no answer within 0.2 seconds"
        " (give a name or an id of 'sudo docker ps' or 'sudo podman ps', or a process id, with sudo)"
    )


def test_the_user_of_a_rootless_container_is_advised_to_explain_its_command(engines, tmp_path, monkeypatch):
    engines.mkdir()
    (tmp_path / "docker").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ExplainError) as refused:
        read_running(Host(str(tmp_path)), "web")

    assert str(refused.value) == (
        "web is a container of rootless Podman, of which only the command can be explained"
        " (run 'amd-ctk explain -- podman run ARGS...')"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="a directory of root's is needed, which only root can make")
def test_a_user_without_access_to_dockers_directory_is_advised_to_use_sudo(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    # As Docker 20.10 makes it.
    (root / "run/docker").mkdir(parents=True)
    (root / "run/docker").chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(ExplainError) as refused:
            read_running(Host(str(root)), "web")
    finally:
        os.seteuid(0)
        shutil.rmtree(root)

    assert str(refused.value) == (
        "no container web is running, as far as can be seen here; run it with sudo (name it by its id)"
    )
