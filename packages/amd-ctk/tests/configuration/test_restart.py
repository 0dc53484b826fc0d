"""Restarting an engine; test programs stand in for systemd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amd_ctk.configuration.apply import RestartError, restart, restart_command
from amdgpu_discovery.host import Host


def test_systemd_is_asked_where_it_runs_the_host(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert restart_command(host, "docker") == ["service", "docker", "restart"]

    (tmp_path / "run/systemd/system").mkdir(parents=True)

    assert restart_command(host, "docker") == ["systemctl", "restart", "docker"]


def test_the_service_is_restarted(stand_in: Callable[[str, str], Path]) -> None:
    systemctl = stand_in("systemctl", "")

    restart(["systemctl", "restart", "docker"], "docker")

    assert systemctl.with_name("systemctl.said").read_text() == "restart docker\n"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            "echo 'Job for docker.service failed.' >&2; echo 'See journalctl' >&2; exit 1",
            "Job for docker.service failed.",
        ),
        ("exit 4", "exit code 4"),
    ],
)
def test_a_service_that_does_not_start_is_named(stand_in: Callable[[str, str], Path], lines: str, why: str) -> None:
    stand_in("systemctl", lines)

    with pytest.raises(RestartError) as failed:
        restart(["systemctl", "restart", "docker"], "docker")

    assert str(failed.value) == (
        f"docker was not restarted: {why} (its configuration is changed; 'sudo systemctl restart docker' restarts it)"
    )


def test_a_machine_without_the_command_is_reported(stand_in: Callable[[str, str], Path]) -> None:
    with pytest.raises(RestartError, match=r"^docker was not restarted: service cannot be run \("):
        restart(["service", "docker", "restart"], "docker")
