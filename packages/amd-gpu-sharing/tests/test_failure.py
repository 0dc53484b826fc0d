"""A service that systemd has given up on is named to everyone, with the command that starts it again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from amd_device_spec.settings_file import compile_settings
from amd_gpu_sharing import failure
from amd_gpu_sharing.broker.requests import client, protocol
from amd_gpu_sharing.broker.requests.client import ServiceFailed, ServiceStopped
from amd_gpu_sharing.for_tracker import describe_failure
from amd_gpu_sharing.service import JobRequest, Service
from amdgpu_discovery.command_line import programs
from amdgpu_discovery.host import Host

RESTART = "sudo systemctl reset-failed amd-gpu-tracker.service && sudo systemctl start amd-gpu-tracker.socket"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host that stands for this machine, with programs of systemd that say what `answers` has."""
    for name in ("systemctl", "journalctl"):
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n. {tmp_path}/answer-{name}\n')
        program.chmod(0o755)
        (tmp_path / f"answer-{name}").write_text("exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:/usr/bin:/bin")
    monkeypatch.setattr(programs, "RUNNING", "/systemd")
    monkeypatch.setattr(Host, "is_this_machine", True)
    (tmp_path / "host/systemd").mkdir(parents=True)
    return Host(tmp_path / "host")


def answer(systemd: Host, program: str, lines: str) -> None:
    Path(systemd.root).with_name(f"answer-{program}").write_text(f"{lines}\n")


def test_a_user_reads_that_the_service_has_failed_and_who_starts_it_again(systemd, monkeypatch) -> None:
    answer(systemd, "systemctl", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ServiceFailed) as failed:
        Service(systemd).reserve(JobRequest(name="debug", gpus="free:1", seconds=60), timeout=None, notify=print)

    assert failed.value.message == "the service that gives out GPUs has failed"
    assert failed.value.hint == f"the administrator starts it again: {RESTART}"
    assert failed.value.exit_code == 14
    asked = Path(systemd.root).with_name("asked").read_text()
    assert asked == "is-failed --quiet amd-gpu-tracker.service amd-gpu-tracker.socket\n"


def test_the_command_that_restarts_a_service_is_one_of_systemd_where_that_runs(systemd) -> None:
    assert failure.find_restart(systemd) == "sudo systemctl restart amd-gpu-tracker.service"


def test_root_reserves_without_the_service(systemd, monkeypatch) -> None:
    answer(systemd, "systemctl", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    failure.require_not_failed(systemd)

    assert failure.has_failed(systemd)


def test_a_service_that_was_never_set_up_has_not_failed(systemd) -> None:
    assert not failure.has_failed(systemd)


def test_a_service_with_a_socket_is_not_asked_about(systemd) -> None:
    answer(systemd, "systemctl", "exit 0")
    socket = Path(systemd.path("/run/amd-container-toolkit/gpus.socket"))
    socket.parent.mkdir(parents=True)
    socket.touch()

    assert not failure.has_failed(systemd)
    assert not Path(systemd.root).with_name("asked").exists()


@pytest.mark.parametrize(("users", "said"), [("", ""), ('users = ["everyone"]', f"'{RESTART}' starts it again")])
def test_status_says_so_on_a_host_with_rules(systemd, users, said) -> None:
    answer(systemd, "systemctl", "exit 0")
    settings = Path(systemd.path("/etc/amd-container-toolkit/config.toml"))
    settings.parent.mkdir(parents=True)
    settings.write_text(f"{users}\n")
    # Python 3.10 reads only compiled settings.
    compile_settings(systemd)

    assert describe_failure(systemd) == (said and f"the service that gives out GPUs has failed: {said}")


def test_the_last_error_is_the_last_line_in_the_journal(systemd) -> None:
    answer(systemd, "journalctl", "echo 'ValueError: broken'")

    assert failure.find_last_error(systemd) == "ValueError: broken"
    assert Path(systemd.root).with_name("asked").read_text() == (
        "--quiet --output=cat --lines=1 _SYSTEMD_UNIT=amd-gpu-tracker.service\n"
    )


def test_a_client_outlives_the_removal_of_its_packages(systemd, monkeypatch) -> None:
    """Then the modules that it has not imported yet are gone, too."""

    def stop(*_: object, **__: object) -> None:
        raise ServiceStopped("the service that gives out GPUs has stopped")

    monkeypatch.setattr(client, "send_request", stop)
    monkeypatch.setattr(protocol, "find_socket", lambda _: "/gone")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setitem(sys.modules, "amdgpu_discovery.command_line.programs", None)

    with pytest.raises(ServiceStopped) as stopped:
        Service(systemd).reserve(JobRequest(name="debug", gpus="free:1", seconds=60), timeout=None, notify=print)

    assert stopped.value.message == "the service that gives out GPUs has stopped"
