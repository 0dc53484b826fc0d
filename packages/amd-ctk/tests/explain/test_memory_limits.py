"""A limit on GPU memory is said to hold where the container's start enforces it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amd_ctk.configuration import runtime_program
from amd_ctk.engines.engine_answers import EngineInfo
from amd_ctk.explain.explanation import explain_container, explain_spec
from amd_ctk.explain.run_words import parse_run
from amd_device_spec.settings_file import set_setting

WORDS = ("podman", "--runtime=/usr/bin/amd-container-runtime", "run", "-e", "AMD_VISIBLE_DEVICES=0")
LIMIT = "dmem.max"
DOCKER = ("docker", "run", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0", "-e", "AMD_VRAM=8GiB", "rocm")
WITHOUT_SYSTEMD = "AMD_VRAM=8GiB is not enforced: crun sets a limit only where systemd makes the container's cgroup"
ABLE = 'runtime_supports_nocgroup = ["amd-container-runtime"]\n'
BY_CRUN = "AMD_VRAM=8GiB is enforced by crun only where systemd makes the container's cgroup"


@pytest.fixture
def limited(host):
    """Return four MI210 and a kernel that limits their memory."""
    made = host()
    cgroup = Path(made.path("/sys/fs/cgroup"))
    cgroup.mkdir(parents=True, exist_ok=True)
    (cgroup / "cgroup.controllers").write_text("cpuset cpu io memory pids dmem\n")
    (cgroup / "dmem.capacity").write_text("drm/0000:03:00.0/vram 68702699520\n")
    return made


def explain(limited, *words):
    return explain_container(parse_run([*WORDS, "-e", "AMD_VRAM=8GiB", *words, "rocm"], {}), limited)


def unified(explanation):
    return explanation.plan.spec["linux"]["resources"].get("unified")


def test_runc_enforces_a_limit(limited):
    explanation = explain(limited)

    assert unified(explanation) == {LIMIT: "drm/0000:03:00.0/vram 8589934592"}
    assert not any("AMD_VRAM" in note for note in explanation.notes)


@pytest.fixture
def give_crun(tmp_path, monkeypatch):
    """Return a function that installs this version of crun, which makes containers that keep groups."""

    def give(version):
        (tmp_path / "crun").write_text(f"#!/bin/sh\necho crun version {version}\n")
        (tmp_path / "crun").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return give


def test_the_limit_of_a_container_that_keeps_groups_depends_on_systemd_because_crun_makes_it(limited, give_crun):
    give_crun("1.28")

    explanation = explain(limited, "--group-add=keep-groups")

    assert unified(explanation) == {LIMIT: "drm/0000:03:00.0/vram 8589934592"}
    assert BY_CRUN in explanation.notes


@pytest.mark.parametrize(
    ("manager", "limit", "note"),
    [
        ("systemd", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, None),
        ("cgroupfs", None, WITHOUT_SYSTEMD),
    ],
)
@pytest.mark.parametrize("way", ["option", "option of run", "setting"])
def test_crun_enforces_a_limit_where_podman_has_systemd_make_the_cgroup(limited, give_crun, manager, limit, note, way):
    give_crun("1.28")
    podman, *run = [*WORDS, "-e", "AMD_VRAM=8GiB", "--group-add=keep-groups"]
    option = f"--cgroup-manager={manager}"
    words = {"option": [podman, option, *run], "option of run": [podman, *run, option], "setting": [podman, *run]}
    if way == "setting":
        settings = Path(limited.path("/etc/containers/containers.conf"))
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[engine]\ncgroup_manager = "{manager}"\n')

    explanation = explain_container(parse_run([*words[way], "rocm"], {}), limited)

    assert unified(explanation) == limit
    assert [each for each in explanation.notes if "AMD_VRAM" in each] == ([note] if note else [])


@pytest.mark.parametrize(
    ("driver", "limit", "note"),
    [
        ("systemd", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, None),
        ("cgroupfs", None, WITHOUT_SYSTEMD),
        ("", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, BY_CRUN),
    ],
)
def test_crun_enforces_a_limit_where_docker_says_that_systemd_makes_cgroups(limited, give_crun, driver, limit, note):
    give_crun("1.28")
    set_setting(limited, "low-level-runtime", "crun")
    runtimes = {"amd": "/usr/bin/amd-container-runtime"}
    docker = EngineInfo(version=(28,), runtimes=runtimes, default_runtime="runc", cgroup_driver=driver)

    explanation = explain_container(parse_run(DOCKER, {}).replace(info=docker), limited)

    assert unified(explanation) == limit
    assert [each for each in explanation.notes if "AMD_VRAM" in each] == ([note] if note else [])


@pytest.mark.parametrize(
    ("is_sudo", "notes"),
    [
        (
            False,
            [
                "AMD_VRAM=8GiB is not enforced: the container is rootless, and root owns the cgroups that have limits",
            ],
        ),
        (True, []),
    ],
)
def test_a_rootless_container_has_no_limit(limited, monkeypatch, is_sudo, notes):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    container = parse_run([*WORDS, "-e", "AMD_VRAM=8GiB", "rocm"], {"HOME": "/home/u1"}, is_sudo=is_sudo)

    explanation = explain_container(container, limited)

    assert [each for each in explanation.notes if "AMD_VRAM" in each] == notes
    assert bool(unified(explanation)) is is_sudo


# As Podman 4.3.1 called a stub with --cgroup-manager=systemd: with no --cgroups, "enabled" and "no-conmon" as
# `--systemd-cgroup create`, with "split" as `create`, and with "disabled" as `--cgroup-manager disabled create`, if
# runtime_supports_nocgroup names the stub without its directory. It read [containers] cgroups for the same.
@pytest.mark.parametrize(
    ("cgroups", "limit", "note"),
    [
        ("", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, None),
        ("enabled", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, None),
        ("no-conmon", {LIMIT: "drm/0000:03:00.0/vram 8589934592"}, None),
        ("split", None, WITHOUT_SYSTEMD),
        ("disabled", None, WITHOUT_SYSTEMD),
    ],
)
@pytest.mark.parametrize("way", ["option", "setting"])
def test_podman_may_leave_systemd_out_for_one_container(limited, give_crun, cgroups, limit, note, way):
    give_crun("1.28")
    settings = Path(limited.path("/etc/containers/containers.conf"))
    settings.parent.mkdir(parents=True)
    lines = f'[containers]\ncgroups = "{cgroups}"\n' if way == "setting" else ""
    settings.write_text(f'{lines}[engine]\ncgroup_manager = "systemd"\n{ABLE}')
    option = [f"--cgroups={cgroups}"] if way == "option" else []

    explanation = explain(limited, "--group-add=keep-groups", *option)

    assert unified(explanation) == limit
    assert [each for each in explanation.notes if "AMD_VRAM" in each or "--cgroups" in each] == [note] * bool(note)
    assert explanation.starts


@pytest.mark.parametrize("way", ["option", "setting"])
def test_podman_refuses_a_container_without_a_cgroup_under_a_runtime_that_no_setting_names(limited, way):
    if way == "setting":
        settings = Path(limited.path("/etc/containers/containers.conf"))
        settings.parent.mkdir(parents=True)
        settings.write_text('[containers]\ncgroups = "disabled"\n')

    explanation = explain(limited, *["--cgroups=disabled"][: way == "option"])

    assert [str(refusal) for refusal in explanation.plan.refusals] == [
        "podman refuses /usr/bin/amd-container-runtime without cgroups (add --cgroups=enabled)"
    ]


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_container_of_docker_that_says_it_is_rootless_has_no_limit(limited, monkeypatch, uid):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    runtimes = {"amd": "/usr/bin/amd-container-runtime"}
    docker = EngineInfo(version=(28,), runtimes=runtimes, default_runtime="runc", is_rootless=True)
    address = {"HOME": "/home/u", "DOCKER_HOST": "unix:///home/u/.docker/run/docker.sock"}

    explanation = explain_container(parse_run(DOCKER, address).replace(info=docker), limited)

    assert unified(explanation) is None
    assert [each for each in explanation.notes if "AMD_VRAM" in each] == [
        "AMD_VRAM=8GiB is not enforced: the container is rootless, and root owns the cgroups that have limits"
    ]


def test_an_old_crun_enforces_none(limited, give_crun):
    give_crun("1.14.1")

    explanation = explain(limited, "--group-add=keep-groups")

    assert unified(explanation) is None
    assert (
        "AMD_VRAM=8GiB is not enforced: crun 1.14.1 does not set all limits of a container in systemd's scope;"
        " install crun 1.21 or later"
    ) in explanation.notes


def test_the_spec_of_a_container_that_keeps_groups_says_the_same(limited, give_crun):
    give_crun("1.28")
    bundle = {
        "annotations": {"run.oci.keep_original_groups": "1"},
        "process": {"env": ["AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB"]},
    }

    explanation = explain_spec(bundle, limited)

    assert unified(explanation) == {LIMIT: "drm/0000:03:00.0/vram 8589934592"}
    assert BY_CRUN in explanation.notes


@pytest.mark.parametrize(("programs", "by_crun"), [(["runc"], False), (["runc", "crun"], False), (["crun"], True)])
def test_crun_makes_the_container_where_there_is_no_runc(limited, tmp_path, monkeypatch, programs, by_crun):
    monkeypatch.setattr(runtime_program, "LOW_LEVEL_DIRECTORIES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in programs:
        (tmp_path / name).touch(0o755)

    explanation = explain(limited)

    assert (BY_CRUN in explanation.notes) == by_crun
