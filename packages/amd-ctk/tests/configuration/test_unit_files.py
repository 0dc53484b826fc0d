"""What a daemon is started with, read from unit files as systemd reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amd_ctk.configuration.unit_files import CommandLine, read_command_line
from amdgpu_discovery.host import Host

MAIN = "lib/systemd/system/docker.service"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def write(host: Host, path: str, text: str) -> None:
    file = Path(host.path(f"/{path}"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def words(host: Host) -> tuple[str, ...]:
    return read_command_line(host, "docker.service").argv


def test_a_host_without_the_unit_starts_nothing(host: Host) -> None:
    assert read_command_line(host, "docker.service") == CommandLine()


def test_the_unit_of_the_administrator_stands_for_that_of_the_package(host: Host) -> None:
    write(host, MAIN, "[Service]\nExecStart=/usr/sbin/dockerd --debug\n")
    write(host, "etc/systemd/system/docker.service", "[Service]\nExecStart=-/opt/dockerd -H fd://\n")

    assert words(host) == ("/opt/dockerd", "-H", "fd://")


def test_drop_ins_add_in_the_order_of_their_names_and_an_empty_line_takes_back(host: Host) -> None:
    write(host, MAIN, "[Unit]\nExecStart=no\n[Service]\nExecStart=/usr/sbin/dockerd --debug\n")
    write(host, "etc/systemd/system/docker.service.d/20-b.conf", "[Service]\nExecStart=/usr/bin/dockerd \\\n  --b\n")
    write(host, "lib/systemd/system/docker.service.d/10-a.conf", "[Service]\n# by hand\nExecStart=\n")
    write(host, "lib/systemd/system/docker.service.d/20-b.conf", "[Service]\nExecStart=/never\n")
    write(host, "lib/systemd/system/docker.service.d/notes.txt", "[Service]\nExecStart=/never\n")

    assert words(host) == ("/usr/bin/dockerd", "--b")


def test_variables_come_from_the_unit_and_from_its_files(host: Host) -> None:
    write(host, "etc/default/docker", "#DOCKER_OPTS=no\nDOCKER_OPTS=\"--a 1 --b='2 3'\"\nROOT=/srv\n")
    write(
        host,
        MAIN,
        '[Service]\nEnvironment=ROOT=/x "NAME=a b"\nEnvironmentFile=-/etc/default/docker\nEnvironmentFile=-/gone\n'
        "ExecStart=/usr/sbin/dockerd $DOCKER_OPTS --root=${ROOT}/docker --label=${NAME} $NOTHING\n",
    )

    assert words(host) == ("/usr/sbin/dockerd", "--a", "1", "--b=2 3", "--root=/srv/docker", "--label=a b")


@pytest.mark.parametrize(
    "command",
    [
        "/bin/sh -c 'exec /usr/bin/dockerd --config-file=/opt/docker.json'",
        '/usr/bin/bash -e -c "/usr/bin/dockerd --config-file=$FILE"',
        "sh -c ${COMMAND}",
    ],
)
def test_a_shell_runs_the_daemon_with_the_words_of_its_script(host: Host, command: str) -> None:
    variables = 'Environment=FILE=/opt/docker.json "COMMAND=exec dockerd --config-file=/opt/docker.json"\n'
    write(host, MAIN, f"[Service]\n{variables}ExecStart={command}\n")

    assert words(host)[-1] == "--config-file=/opt/docker.json"


def test_drop_ins_for_every_service_count_unless_the_unit_has_one_of_that_name(host: Host) -> None:
    write(host, MAIN, "[Service]\nExecStart=/usr/bin/dockerd\n")
    write(host, "etc/systemd/system/service.d/10-a.conf", "[Service]\nExecStart=\nExecStart=/opt/dockerd --a\n")

    assert words(host) == ("/opt/dockerd", "--a")

    write(host, "lib/systemd/system/docker.service.d/10-a.conf", "[Service]\nExecStart=\nExecStart=/opt/dockerd --b\n")

    assert words(host) == ("/opt/dockerd", "--b")


def test_specifiers_stand_for_names_and_directories(host: Host) -> None:
    write(host, MAIN, "[Service]\nExecStart=/usr/bin/dockerd --config-file=%E/%N/%n.json --label=100%% --root=%S/x\n")

    assert words(host)[1:] == ("--config-file=/etc/docker/docker.service.json", "--label=100%", "--root=/var/lib/x")


def test_quotes_that_nobody_closed_are_letters(host: Host) -> None:
    write(host, MAIN, "[Service]\nExecStart=/usr/sbin/dockerd --label='x\n")

    assert words(host) == ("/usr/sbin/dockerd", "--label='x")


def test_options_are_read_in_both_spellings() -> None:
    line = CommandLine(unit="docker.service", argv=("dockerd", "--a=1", "--a", "2", "--live-restore", "--ab=3"))

    assert line.values_of("--a") == ["1", "2"]
    assert line.values_of("--b") == []
    assert (line.has_flag("--live-restore"), line.has_flag("--debug")) == (True, False)
