"""What systemd is asked for a process, by a stand-in for its client that does what systemd would."""

from __future__ import annotations

import os

from amd_gpu_sharing.node_access.scope import allowed_devices, start_scope
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

DEVICES = """\
Character devices:
  1 mem
  5 /dev/tty
  4 ttyS
 10 misc
203 cpu/cpuid
226 drm
235 kfd

Block devices:
  8 sd
"""


def test_a_job_may_open_its_gpus_and_whatever_is_no_gpu(tmp_path):
    gpus = locate_gpus(build_host(tmp_path / "host", "mi210-4", bare=True))

    assert allowed_devices(gpus[:1], DEVICES) == [
        ("char-mem", "rwm"),
        ("char-ttyS", "rwm"),
        ("char-misc", "rwm"),
        ("char-cpu/cpuid", "rwm"),
        ("block-*", "rwm"),
        ("/dev/kfd", "rw"),
        ("/dev/dri/renderD130", "rw"),
        ("/dev/dri/card3", "rw"),
    ]


def make_systemd(directory, cgroup, script, monkeypatch):
    """Put a `busctl` in front of all others, and a process 4711 in a cgroup; return where its cgroup is written."""
    (directory / "bin").mkdir()
    (directory / "proc/4711").mkdir(parents=True)
    file = directory / "proc/4711/cgroup"
    file.write_text(f"0::{cgroup}\n")
    program = directory / "bin/busctl"
    program.write_text(f'#!/bin/sh\nprintf "%s " "$@" >{directory}/said\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}/bin:{os.environ['PATH']}")
    return file


def start(directory):
    return start_scope(
        "amd-gpu-1001-train-4711-9.scope",
        4711,
        parent="user-1001.slice",
        allowed=[("char-mem", "rwm"), ("/dev/kfd", "rw")],
        proc=str(directory / "proc"),
    )


def test_systemd_is_asked_for_a_scope_that_ends_with_the_session(tmp_path, monkeypatch):
    scope = "/user.slice/user-1001.slice/amd-gpu-1001-train-4711-9.scope"
    file = make_systemd(
        tmp_path,
        "/user.slice/user-1001.slice/session-3.scope",
        f"echo 0::{scope} >{tmp_path}/proc/4711/cgroup",
        monkeypatch,
    )

    assert start(tmp_path) == ""

    assert (tmp_path / "said").read_text() == (
        "--quiet --timeout=10 call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager "
        "StartTransientUnit ssa(sv)a(sa(sv)) amd-gpu-1001-train-4711-9.scope fail 7 PIDs au 1 4711 "
        "Slice s user-1001.slice CollectMode s inactive-or-failed SendSIGHUP b true DevicePolicy s closed "
        "DeviceAllow a(ss) 2 char-mem rwm /dev/kfd rw PartOf as 1 session-3.scope 0 "
    )
    (tmp_path / "said").unlink()
    # Asked again by a client that lost its connection.
    assert (start(tmp_path), file.read_text()) == ("", f"0::{scope}\n")
    assert not (tmp_path / "said").exists()


def test_a_process_of_no_session_has_a_scope_of_its_own(tmp_path, monkeypatch):
    make_systemd(
        tmp_path,
        "/system.slice/cron.service",
        f"echo 0::/user.slice/amd-gpu-1001-train-4711-9.scope >{tmp_path}/proc/4711/cgroup",
        monkeypatch,
    )

    assert start(tmp_path) == ""

    assert (tmp_path / "said").read_text().endswith("/dev/kfd rw 0 ")


def test_systemds_refusal_is_printed(tmp_path, monkeypatch):
    make_systemd(tmp_path, "/system.slice/cron.service", "echo Call failed: Access denied >&2; exit 1", monkeypatch)

    assert start(tmp_path) == "Call failed: Access denied"
