"""CDI specs in other directories than the usual ones, as the settings of each engine name them."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = "/usr/lib/systemd/system/docker.service"
CONF = "/etc/containers/containers.conf"
SETTINGS = {
    "docker's file": ("docker", "/etc/docker/daemon.json", '{"cdi-spec-dirs": ["/opt/cdi"]}'),
    "docker's unit": ("docker", UNIT, "[Service]\nExecStart=/usr/bin/dockerd --cdi-spec-dir=/opt/cdi\n"),
    "podman's file": ("podman", CONF, '[engine]\ncdi_spec_dirs = ["/opt/cdi/"]\n'),
    "podman's drop-in": ("podman", f"{CONF}.d/a.conf", '[engine]\ncdi_spec_dirs = ["/opt/cdi"]\n'),
}
CONTAINERD = (
    "/etc/containerd/config.toml",
    'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncdi_spec_dirs = ["/opt/cdi"]\n',
)


@pytest.fixture
def write(host, tmp_path):
    """Return a function that writes a file of the test's host."""
    host()

    def write_file(path: str, text: str) -> None:
        file = Path(tmp_path / "host" / path.lstrip("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write_file


@pytest.mark.parametrize("where", SETTINGS)
def test_a_spec_in_a_directory_that_the_engine_does_not_read_is_named(write, amd_ctk, where):
    engine, path, text = SETTINGS[where]
    write(path, text)

    generated = amd_ctk("cdi", "generate")
    answer = amd_ctk("explain", "--", engine, "run", "--device", "amd.com/gpu=0", "img")

    assert generated.stderr == f"{engine} reads CDI specs in /opt/cdi only, and not /etc/cdi/amd.json\n"
    assert answer.returncode == 1
    assert (
        "--device amd.com/gpu=0: the engine reads CDI specs in /opt/cdi only, where none has this device"
        " (sudo amd-ctk cdi generate --output=/opt/cdi/amd.json)\n"
    ) in answer.stdout


@pytest.mark.parametrize("where", SETTINGS)
def test_a_spec_in_the_directory_of_the_engine_is_read(write, amd_ctk, where):
    engine, path, text = SETTINGS[where]
    write(path, text)

    generated = amd_ctk("cdi", "generate", "--output=/opt/cdi/amd.json")
    answer = amd_ctk("explain", "--", engine, "run", "--device", "amd.com/gpu=2", "img")

    assert generated.stderr == ""
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[1].startswith("2 ")


def test_podman_is_given_a_directory_on_its_command_line(write, amd_ctk):
    write(CONF, '[engine]\ncdi_spec_dirs = ["/srv/cdi"]\n')
    amd_ctk("cdi", "generate", "--output=/opt/cdi/amd.json")

    for words in (["--cdi-spec-dir=/opt/cdi"], ["--cdi-spec-dir", "/opt/cdi"]):
        assert amd_ctk("explain", "--", "podman", *words, "run", "--device", "amd.com/gpu=2", "img").returncode == 0


def test_directories_that_a_drop_in_adds_count_beside_the_others(write, amd_ctk):
    write(f"{CONF}.d/a.conf", '[engine]\ncdi_spec_dirs = ["/opt/cdi", {append=true}]\n')

    assert amd_ctk("cdi", "generate").stderr == ""
    assert amd_ctk("explain", "--", "podman", "run", "--device", "amd.com/gpu=2", "img").returncode == 0


@pytest.mark.parametrize("variable", ["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"])
def test_a_variable_names_the_file_of_podman(write, amd_ctk, variable):
    write(CONF, '[engine]\ncdi_spec_dirs = ["/etc/cdi"]\n')
    write("/opt/podman.conf", '[engine]\ncdi_spec_dirs = ["/opt/cdi"]\n')
    amd_ctk("cdi", "generate")

    answer = amd_ctk(
        "explain", "--", "podman", "run", "--device", "amd.com/gpu=2", "img", **{variable: "/opt/podman.conf"}
    )

    assert answer.returncode == 1
    assert "the engine reads CDI specs in /opt/cdi only" in answer.stdout


def test_containerd_is_named_too(write, amd_ctk):
    write(*CONTAINERD)

    said = "containerd reads CDI specs in /opt/cdi only, and not /etc/cdi/amd.json\n"
    assert amd_ctk("cdi", "generate").stderr == said


@pytest.mark.parametrize("text", ['{"cdi-spec-dirs": ["/etc/cdi", "/run/cdi"]}', '{"cdi-spec-dirs": []}', "{"])
def test_the_usual_directories_are_no_news(write, amd_ctk, text):
    write("/etc/docker/daemon.json", text)

    assert amd_ctk("cdi", "generate").stderr == ""
