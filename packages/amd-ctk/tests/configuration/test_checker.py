"""What an engine says about a configuration before it is written; test programs stand in for the engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amd_ctk.configuration.apply import RefusedByEngine, check
from amd_ctk.engines.known import ENGINES

StandIn = Callable[[str, str], Path]
DOCKER = ENGINES["docker"]
CONTAINERD = ENGINES["containerd"]


def said(program: Path) -> list[str]:
    return program.with_name(f"{program.name}.said").read_text().split()


def test_without_the_engine_there_is_nobody_to_ask(stand_in: StandIn) -> None:
    check(DOCKER, "not even JSON", "/etc/docker/daemon.json")


def test_dockerd_reads_the_text_from_a_file_of_the_same_name(stand_in: StandIn, tmp_path: Path) -> None:
    dockerd = stand_in("dockerd", f'cat "$3" > {tmp_path}/seen')

    check(DOCKER, '{"é": 1}\r\n', "/etc/docker/daemon.json")

    assert said(dockerd)[:2] == ["--validate", "--config-file"]
    assert Path(said(dockerd)[2]).name == "daemon.json"
    assert not Path(said(dockerd)[2]).exists()
    assert (tmp_path / "seen").read_bytes() == '{"é": 1}\r\n'.encode()


def test_dockerds_refusal_names_the_real_path(stand_in: StandIn) -> None:
    stand_in("dockerd", 'echo noise >&2; echo "unable to configure with file $3: nope" >&2; exit 1')

    with pytest.raises(RefusedByEngine) as refused:
        check(DOCKER, "{}", "/etc/docker/daemon.json")

    assert str(refused.value) == (
        "docker refuses the new /etc/docker/daemon.json: unable to configure with file /etc/docker/daemon.json: nope "
        "(nothing was changed; use --no-validate to skip this check)"
    )


def test_a_dockerd_too_old_to_check_refuses_nothing(stand_in: StandIn) -> None:
    stand_in("dockerd", 'echo "Status: unknown flag: --validate" >&2; exit 125')

    check(DOCKER, "{}", "/etc/docker/daemon.json")


@pytest.mark.parametrize(("lines", "sentence"), [("exit 3", "exit code 3"), ("echo bad; exit 1", "bad")])
def test_an_engine_that_says_little_is_quoted_all_the_same(stand_in: StandIn, lines: str, sentence: str) -> None:
    stand_in("dockerd", lines)

    with pytest.raises(RefusedByEngine, match=f"^docker refuses the new /d.json: {sentence} "):
        check(DOCKER, "{}", "/d.json")


def test_a_checker_that_cannot_be_run_is_named(stand_in: StandIn) -> None:
    program = stand_in("dockerd", "")
    program.write_text("#!/nowhere/interpreter\n")

    with pytest.raises(RefusedByEngine, match="it cannot be run: "):
        check(DOCKER, "{}", "/d.json")


def test_containerd_has_to_show_the_runtime_in_what_it_understood(stand_in: StandIn) -> None:
    containerd = stand_in("containerd", 'cat "$2"')

    check(CONTAINERD, 'BinaryName = "/usr/bin/amd"', "/etc/containerd/config.toml", program="/usr/bin/amd")

    assert said(containerd)[0] == "--config"
    assert said(containerd)[2:] == ["config", "dump"]
    with pytest.raises(RefusedByEngine) as refused:
        check(CONTAINERD, "version = 2", "/etc/containerd/config.toml", program="/usr/bin/amd")
    assert str(refused.value) == (
        "containerd does not list the runtime when it reads the new /etc/containerd/config.toml (it may be "
        "too old for the version of the file, or a file imported there replaces the same section)"
    )


def test_crio_is_asked_for_this_file_alone(stand_in: StandIn) -> None:
    crio = stand_in("crio", '[ "$3 $4 $5" = "--config-dir  config" ]')

    check(ENGINES["crio"], "", "/etc/crio/crio.conf.d/99-amd.conf")

    assert Path(said(crio)[1]).name == "99-amd.conf"


def test_podman_has_no_checker_to_ask(stand_in: StandIn) -> None:
    stand_in("podman", "exit 1")

    check(ENGINES["podman"], "", "/etc/containers/containers.conf.d/99-amd.conf")
