"""What real engines make of the configurations that `amd-ctk runtime configure` writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from amd_ctk.configuration import running_docker
from amd_ctk.configuration.apply import Target, find_target
from amd_ctk.configuration.running_docker import DefaultRemains, RunningDocker, release_default
from amd_ctk.engines.docker import DOCKER
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from support.docker import IMAGE, Docker
from support.installed import SEARCH_PATH, engine_program, our_program

pytestmark = pytest.mark.e2e

CORPUS = Path(__file__).parents[2] / "packages/amd-ctk/tests/engines/corpus"
CRI = "plugins.io.containerd.grpc.v1.cri"
# What containerd writes, or leaves out, for an option that nobody has set.
NOTHING: tuple[Any, ...] = ("", False, 0, [])
PROGRAM = our_program("amd-container-runtime")


@pytest.fixture
def configure(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs `amd-ctk runtime configure` on a host of the test's own, tmp_path/host."""
    (tmp_path / "host").mkdir()
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": str(tmp_path / "host"), "PATH": SEARCH_PATH}

    def configure(*words: str) -> str:
        command = [str(our_program("amd-ctk")), "runtime", "configure", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    return configure


@pytest.mark.docker
def test_docker_takes_the_runtime_as_its_default(
    configure: Callable[..., str], start_docker: Callable[..., Docker], mi300x: Host, tmp_path: Path
) -> None:
    docker = start_docker(mi300x.root)
    daemon_json = docker.directory / "daemon.json"
    before = daemon_json.read_bytes()
    (tmp_path / "host/daemon.json").symlink_to(daemon_json)

    configure("--config-path=/daemon.json", "--runtime-name=gpu", "--set-as-default")
    restart(docker)
    assert docker("info", "--format", "{{.DefaultRuntime}} {{.Runtimes.gpu.Path}}").stdout == f"gpu {PROGRAM}\n"
    listed = docker.output("--env=AMD_VISIBLE_DEVICES=1", command=("list-gpus",))
    assert listed.count("renderD") == 1

    configure("--config-path=/daemon.json", "--remove", "--runtime-name=gpu")
    assert daemon_json.read_bytes() == before
    restart(docker)
    assert docker("info", "--format", "{{.DefaultRuntime}}").stdout == "runc\n"


def restart(docker: Docker) -> None:
    """Have dockerd read its configuration; on SIGHUP version 20.10 panics if the default runtime is gone."""
    docker.halt()
    docker.start()


@pytest.mark.docker
@pytest.mark.parametrize("name", [path.name for path in sorted((CORPUS / "docker").iterdir())])
def test_dockerd_accepts_what_we_make_of_configurations_as_people_have_them(
    configure: Callable[..., str], tmp_path: Path, name: str
) -> None:
    dockerd = engine_program("dockerd")
    said = subprocess.run(
        [dockerd, "--validate", "--config-file=/dev/null"], capture_output=True, text=True, check=False
    )
    if "unknown flag" in said.stderr:
        pytest.skip("this dockerd is older than --validate")
    shutil.copy(CORPUS / "docker" / name, tmp_path / "host")

    assert f"Updated the config file: /{name}\n" in configure(f"--config-path=/{name}", "--set-as-default")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("command", "directive", "option"),
    [
        ("runtime configure --set-as-default", "default-runtime", "--default-runtime=runc"),
        ("swarm setup", "node-generic-resources", "--node-generic-resource=AMD_GPU=0x1"),
    ],
)
def test_a_directive_in_both_places_keeps_docker_down_so_it_is_not_written(
    tmp_path: Path, command: str, directive: str, option: str
) -> None:
    host = build_host(tmp_path / "host", "mi210-4")
    daemon_json = Path(host.path("/etc/docker/daemon.json"))

    written = amd_ctk(host, command)
    assert written.returncode == 0, written.stderr
    said = end_of_dockerd(tmp_path, f"--config-file={daemon_json}", option)
    assert f"specified both as a flag and in the configuration file: {directive}: " in said

    amd_ctk(host, "runtime configure --undo")
    unit = Path(host.path("/etc/systemd/system/docker.service"))
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nExecStart=/usr/bin/dockerd {option}\n")
    refused = amd_ctk(host, command)
    assert (refused.returncode, refused.stdout) == (1, "")
    sentence = f"docker.service has {option} on its command line, and docker does not start while "
    assert refused.stderr.splitlines()[-1].startswith(sentence)
    assert not daemon_json.exists()


def amd_ctk(host: Host, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root, "PATH": SEARCH_PATH}
    words = [str(our_program("amd-ctk")), *command.split()]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def end_of_dockerd(directory: Path, *options: str) -> str:
    """Return what a dockerd says that does not come up; it touches nothing outside `directory`."""
    places = [f"--data-root={directory}/data", f"--exec-root={directory}/run", f"--pidfile={directory}/docker.pid"]
    dockerd = [engine_program("dockerd"), *places, f"--host=unix://{directory}/docker.sock", *options]
    ended = subprocess.run(dockerd, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    return ended.stderr


@pytest.mark.parametrize("name", ["comments-only.toml", "debian.toml", "kubernetes.toml"])
def test_containerd_shows_the_runtime_and_all_that_was_there(
    configure: Callable[..., str], tmp_path: Path, name: str
) -> None:
    containerd = engine_program("containerd")
    config = Path(shutil.copy(CORPUS / "containerd" / name, tmp_path / "host"))

    before = understood_by(containerd, config)
    configure("--runtime=containerd", f"--config-path=/{name}")
    after = understood_by(containerd, config)

    lost = {path: value for path, value in before.items() if after.get(path, NOTHING) != value and value not in NOTHING}
    assert lost.keys() <= {"version", f"{CRI}.enable_cdi"}
    assert after[f"{CRI}.containerd.runtimes.amd.options.BinaryName"] == str(PROGRAM)


def understood_by(containerd: Path, config: Path) -> dict[str, Any]:
    """Return what containerd makes of a configuration, by dotted path."""
    dump = subprocess.run(
        [containerd, "--config", config, "config", "dump"], capture_output=True, text=True, check=True
    )
    return {path: meant(path, value) for path, value in leaves(tomlkit.parse(dump.stdout).unwrap(), "")}


def meant(path: str, value: Any) -> Any:
    """Return what containerd takes a value for: 1.7 reads an empty sandbox_mode as "podsandbox", its own default."""
    return value or "podsandbox" if path.endswith(".sandbox_mode") else value


def leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    else:
        yield path, tree


@pytest.mark.podman
def test_podman_runs_containers_with_the_amd_runtime_by_default(configure: Callable[..., str], tmp_path: Path) -> None:
    podman = engine_program("podman")
    config = tmp_path / "host/99-amd.conf"

    configure("--runtime=podman", "--config-path=/99-amd.conf", "--set-as-default")

    shown = subprocess.run(
        [podman, "info", "--format", "{{.Host.OCIRuntime.Name}} {{.Host.OCIRuntime.Path}}"],
        env={**os.environ, "CONTAINERS_CONF": str(config)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"amd {PROGRAM}\n"


@pytest.mark.docker
@pytest.mark.parametrize("others", [{}, {"runtimes": {"other": {"path": "/bin/true"}}}], ids=["alone", "another"])
def test_a_running_docker_gets_another_default_before_the_runtime_is_removed(
    start_docker: Callable[..., Docker], mi300x: Host, tmp_path: Path, others: dict[str, Any]
) -> None:
    docker, target = with_our_default(start_docker, mi300x, tmp_path, others)
    container = docker("run", "--detach", IMAGE, "sleep", "600").stdout.strip()
    before = Path(target.file.path).read_bytes(), process_of(docker, container)

    assert release_default(target, "amd", {}, running(docker))

    assert (Path(target.file.path).read_bytes(), process_of(docker, container)) == before
    assert docker("info", "--format", "{{.DefaultRuntime}}").stdout == "runc\n"
    # The removal is written, the program is gone, and an administrator lets Docker reload.
    Path(target.file.path).write_text(json.dumps({**settings_of(target), **others}))
    assert running(docker).reload()
    assert docker.output(command=("echo", "started")) == "started\n"
    assert process_of(docker, container) == before[1]


@pytest.mark.docker
def test_a_docker_with_a_default_of_its_own_reads_nothing_again(
    start_docker: Callable[..., Docker], mi300x: Host, tmp_path: Path
) -> None:
    docker, target = with_our_default(start_docker, mi300x, tmp_path, {"default-runtime": "runc"})
    before = docker.log.count("Got signal to reload configuration")

    assert not release_default(target, "amd", {}, running(docker))

    assert docker.log.count("Got signal to reload configuration") == before


@pytest.mark.docker
def test_a_default_of_the_command_line_is_named_and_the_file_stays(
    start_docker: Callable[..., Docker], mi300x: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_docker, "DOCKER_SECONDS", 2.0)
    docker, target = with_our_default(start_docker, mi300x, tmp_path, {})
    docker.halt()
    daemon_json = Path(target.file.path)
    runtimes = {"amd": {"path": str(PROGRAM)}}
    daemon_json.write_text(json.dumps({**settings_of(target), "runtimes": runtimes}))
    docker.daemon_options = ("--default-runtime=amd",)
    docker.start()
    before = daemon_json.read_bytes()

    with pytest.raises(DefaultRemains) as refused:
        release_default(target, "amd", {}, running(docker))

    assert str(refused.value) == (
        "amd is still Docker's default runtime (remove it from the command line of dockerd, if it is there, and restart"
        " Docker)"
    )
    assert daemon_json.read_bytes() == before


def with_our_default(
    start_docker: Callable[..., Docker], host: Host, directory: Path, others: dict[str, Any]
) -> tuple[Docker, Target]:
    runtimes = {"amd": {"path": str(PROGRAM)}, **others.get("runtimes", {})}
    docker = start_docker(host.root, **{"default-runtime": "amd", **others, "runtimes": runtimes})
    target = find_target(Host(str(directory)), DOCKER, "")
    daemon_json = Path(target.file.path)
    daemon_json.parent.mkdir(parents=True)
    daemon_json.symlink_to(docker.directory / "daemon.json")
    return docker, target


def running(docker: Docker) -> RunningDocker:
    return RunningDocker(socket=str(docker.socket), pid_file=f"{docker.directory}/docker.pid")


def settings_of(target: Target) -> dict[str, Any]:
    settings = json.loads(Path(target.file.path).read_text())
    return {name: value for name, value in settings.items() if name not in ("runtimes", "default-runtime")}


def process_of(docker: Docker, container: str) -> str:
    return docker("inspect", "--format", "{{.State.Pid}} {{.State.StartedAt}}", container).stdout
