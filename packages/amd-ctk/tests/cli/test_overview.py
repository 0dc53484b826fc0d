"""amd-ctk alone on a terminal, and on a host that is simulated for one command."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from amd_ctk.engines.crio import CRIO
from amd_ctk.gpus.overview import is_engine_installed, next_command
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host


@pytest.fixture
def on_terminal(tmp_path, program):
    """Return a function that runs amd-ctk on a terminal and returns what is seen."""

    def run(*words):
        environment = {"PATH": "/nowhere", "AMD_CTK_HOST_ROOT": str(tmp_path / "host"), "TERM": "xterm"}
        controller, terminal = pty.openpty()
        with subprocess.Popen([program, *words], env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
            os.close(terminal)
            seen = b""
            try:
                while part := os.read(controller, 65536):
                    seen += part
            except OSError:
                os.close(controller)
        return seen.decode().replace("\r\n", "\n")

    return run


def test_the_state_of_the_host_and_the_next_command_are_shown(tmp_path, on_terminal, amd_ctk):
    build_host(tmp_path / "host", "mi210-4", bare=True)
    amd_ctk("gpu-tracker", "enable")
    amd_ctk("runtime", "configure", "--no-validate", "--runtime-path=/usr/bin/amd-container-runtime")

    assert on_terminal() == (
        "Driver   amdgpu 6.10.5\n"
        "GPUs     4 x MI210\n"
        "Engines  docker (knows the runtime amd)\n"
        "Tracker  enabled, 0 of 4 GPUs in use\n"
        "\n"
        "Next:    sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all docker.io/rocm/rocm-terminal rocm-smi\n"
        "Help:    amd-ctk --help\n"
    )


def test_a_drop_in_of_containerd_counts(tmp_path, on_terminal, amd_ctk):
    build_host(tmp_path / "host", "mi210-4", bare=True)
    main = tmp_path / "host/etc/containerd/config.toml"
    main.parent.mkdir(parents=True)
    main.write_text('version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    amd_ctk(
        *("runtime", "configure", "--runtime=containerd", "--no-validate"),
        "--runtime-path=/usr/bin/amd-container-runtime",
    )

    assert "Engines  containerd (knows the runtime amd)\n" in on_terminal()


def test_an_engine_of_which_only_the_toolkits_file_exists_is_not_installed(tmp_path, monkeypatch):
    invented = CRIO.replace(name="quayside", service="quaysided")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_engine_installed(invented, Host(), has_entry=True)
    (tmp_path / "quaysided").touch(0o755)
    assert is_engine_installed(invented, Host(), has_entry=False)


def test_without_a_driver_doctor_is_next(tmp_path, on_terminal):
    build_host(tmp_path / "host", "no-driver")

    seen = on_terminal()

    assert "GPUs     none\n" in seen
    assert "Next:    sudo amd-ctk doctor\n" in seen


@pytest.mark.parametrize(
    ("engines", "has_cdi", "command"),
    [
        ({"docker": False}, False, "sudo amd-ctk runtime configure"),
        (
            {"docker": True},
            False,
            "sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all docker.io/rocm/rocm-terminal rocm-smi",
        ),
        ({"podman": False}, False, "sudo amd-ctk cdi generate"),
        ({"podman": False}, True, "amd-ctk gpu list"),
    ],
)
def test_the_next_command_depends_on_what_is_there(engines, has_cdi, command):
    assert next_command(engines, is_broken=False, has_cdi=has_cdi) == command


def test_off_a_terminal_the_help_is_printed(host, amd_ctk):
    host()

    assert amd_ctk().stdout == amd_ctk("--help").stdout


def test_any_command_plays_on_a_simulated_host_that_is_gone_afterwards(tmp_path, amd_ctk):
    answer = amd_ctk("--simulate", "mi300x-8", "gpu", "list", AMD_CTK_HOST_ROOT="", TMPDIR=str(tmp_path))

    assert (answer.returncode, answer.stdout.splitlines()[0]) == (0, "Found 8 AMD GPU devices")
    assert list(Path(tmp_path).iterdir()) == []


def test_a_profile_that_does_not_exist_is_refused(amd_ctk):
    answer = amd_ctk("--simulate", "mi300", "gpu", "list", AMD_CTK_HOST_ROOT="")

    assert answer.returncode != 0
    assert "mi300" in answer.stderr
    assert "Traceback" not in answer.stderr
