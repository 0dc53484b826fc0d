"""amd-ctk cdi refresh and watch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from amdgpu_simulator import build_host


@pytest.fixture
def spec(tmp_path):
    """Return where the spec of the test's host is."""
    return tmp_path / "host/etc/cdi/amd.json"


def names(spec):
    return [device["name"] for device in json.loads(spec.read_text())["devices"]]


def become(host, tmp_path, profile):
    """Turn the test's host into another one that keeps what is in /etc and /var."""
    (tmp_path / "host/etc").rename(tmp_path / "etc")
    (tmp_path / "host/var/lib").rename(tmp_path / "lib")
    host(profile)
    (tmp_path / "host/etc").rmdir()
    (tmp_path / "host/var/lib").rmdir()
    (tmp_path / "etc").rename(tmp_path / "host/etc")
    (tmp_path / "lib").rename(tmp_path / "host/var/lib")


def test_refresh_without_a_generated_spec_changes_nothing(host, amd_ctk):
    host()

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout, answer.stderr) == (
        0,
        "No CDI spec has been generated, so there is nothing to refresh\n",
        "",
    )


def test_a_spec_that_is_up_to_date_is_not_written(host, amd_ctk, spec):
    host()
    amd_ctk("cdi", "generate")
    before = spec.stat()

    answer = amd_ctk("cdi", "refresh")

    assert answer.stdout == "CDI spec is up to date: /etc/cdi/amd.json\n"
    assert spec.stat().st_ino == before.st_ino
    assert spec.stat().st_mtime_ns == before.st_mtime_ns


def test_the_options_of_generate_are_repeated(host, amd_ctk, tmp_path, spec):
    host("mi210-4")
    amd_ctk("cdi", "generate", "--device-name-strategy=index", "--no-all")
    amd_ctk("cdi", "generate", "--device-name-strategy=pci", "--output=/etc/lab/amd.yaml")
    become(host, tmp_path, "mi210-8")

    answer = amd_ctk("cdi", "refresh")

    refreshed = ["/etc/cdi/amd.json", "/etc/lab/amd.yaml"]
    assert (answer.returncode, answer.stdout) == (0, "".join(f"Generated CDI spec: {path}\n" for path in refreshed))
    assert names(spec) == ["0", "1", "2", "3", "4", "5", "6", "7"]
    assert (tmp_path / "host/etc/lab/amd.yaml").read_text().count("- name: ") == 17


def test_a_spec_that_is_gone_is_generated_again(host, amd_ctk, spec):
    host()
    amd_ctk("cdi", "generate")
    spec.unlink()

    assert amd_ctk("cdi", "refresh").stdout == "Generated CDI spec: /etc/cdi/amd.json\n"
    assert spec.exists()


def test_a_spec_whose_directory_is_gone_is_forgotten(host, amd_ctk, tmp_path):
    host()
    amd_ctk("cdi", "generate", "--output=/srv/trial/amd.json")
    (tmp_path / "host/srv/trial/amd.json").unlink()
    (tmp_path / "host/srv/trial").rmdir()

    first, second = amd_ctk("cdi", "refresh"), amd_ctk("cdi", "refresh")

    assert first.stdout == "No longer refreshed, because its directory is gone: /srv/trial/amd.json\n"
    assert second.stdout == "No CDI spec has been generated, so there is nothing to refresh\n"


@pytest.mark.parametrize("directory", ["/run/cdi", "/var/run/cdi", "/tmp/cdi", "/var/tmp/cdi"])
def test_a_spec_in_a_directory_that_is_empty_after_a_boot_is_generated_again(host, amd_ctk, tmp_path, directory):
    host()
    amd_ctk("cdi", "generate", "--device-name-strategy=index", f"--output={directory}/amd.json")
    shutil.rmtree(f"{tmp_path}/host{directory}")

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout) == (0, f"Generated CDI spec: {directory}/amd.json\n")
    assert names(tmp_path / f"host{directory}/amd.json") == ["0", "1", "2", "3", "all"]


def test_a_driver_that_is_not_loaded_yet_keeps_the_spec(host, amd_ctk, tmp_path, spec):
    host()
    amd_ctk("cdi", "generate")
    old = spec.read_bytes()
    become(host, tmp_path, "no-driver")

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("failed to generate CDI spec: getting GPUs: amdgpu driver unavailable: ")
    assert spec.read_bytes() == old


def test_one_spec_that_cannot_be_refreshed_does_not_keep_back_the_others(host, amd_ctk, tmp_path, spec):
    host("mi210-8")
    amd_ctk("cdi", "generate", "--output=/etc/lab/a.json", "--gpus=7")
    amd_ctk("cdi", "generate", "--device-name-strategy=index")
    become(host, tmp_path, "mi210-4")

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout) == (1, "Generated CDI spec: /etc/cdi/amd.json\n")
    assert answer.stderr.startswith("failed to generate CDI spec: GPU 7 does not exist, this host has GPUs 0-3")
    assert names(spec) == ["0", "1", "2", "3", "all"]


def test_options_that_cannot_be_read_are_named(host, amd_ctk, tmp_path):
    host()
    amd_ctk("cdi", "generate")
    (kept,) = (tmp_path / "host/var/lib/amd-container-toolkit/cdi").iterdir()
    kept.write_text('{"output": "/etc/cdi/amd.json"}')

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"{kept}, which says how a CDI spec was generated, cannot be read: it is not what amd-ctk writes"
        " (remove it and run 'sudo amd-ctk cdi generate' again)\n"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"output": "etc/amd.json"},
        {"output": "/etc/\0.json"},
        {"output": "/etc/\ud800.json"},
        {"output": 7},
        {"options": {"device_class": 1.5}},
        {"options": {"request": []}},
        {"options": {"with_all": "yes"}},
        {"options": {"name_strategy": "by-colour"}},
    ],
)
def test_options_of_another_type_are_not_what_amd_ctk_writes(host, amd_ctk, tmp_path, change):
    host()
    amd_ctk("cdi", "generate")
    (kept,) = (tmp_path / "host/var/lib/amd-container-toolkit/cdi").iterdir()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | change))

    answer = amd_ctk("cdi", "refresh")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"{kept}, which says how a CDI spec was generated, cannot be read: it is not what amd-ctk writes"
        " (remove it and run 'sudo amd-ctk cdi generate' again)\n"
    )


def test_the_watcher_follows_partitions_and_ends_when_it_is_told_to(host, amd_ctk, tmp_path, spec):
    host("mi300x-8")
    amd_ctk("cdi", "generate", "--device-name-strategy=index", "--no-all")
    build_host(tmp_path / "partitioned", "mi300x-8-cpx", bare=True)
    shutil.copytree(tmp_path / "host/var/lib", tmp_path / "partitioned/var/lib", dirs_exist_ok=True)
    with subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "amd-ctk"), "cdi", "watch", "--interval=0.1"],
        env={"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": str(tmp_path / "host")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as watcher:
        # Ends the reading below if the watcher never says what it should.
        rescue = threading.Timer(60, watcher.kill)
        rescue.start()
        first = watcher.stdout.readline()
        (tmp_path / "host").rename(tmp_path / "whole")
        (tmp_path / "partitioned").rename(tmp_path / "host")
        generated = [line for line in watcher.stdout if stop_after("Generated", line, watcher)]
        rescue.cancel()

    assert first == "CDI spec is up to date: /etc/cdi/amd.json\n"
    assert generated == ["Generated CDI spec: /etc/cdi/amd.json\n"]
    assert watcher.returncode == 0
    assert len(names(spec)) == 63


def stop_after(beginning, line, process):
    """Tell a process to end once it says a line that begins so; return whether it did."""
    if line.startswith(beginning):
        process.send_signal(signal.SIGTERM)
        return True
    return False


@pytest.mark.parametrize("depth", [1, 20])
def test_each_spec_is_remembered_under_its_path_however_long(host, amd_ctk, tmp_path, depth):
    host()
    outputs = [f"/srv/{'a directory %2F/' * depth}{name}.json" for name in ("one", "two")]
    for output in outputs:
        assert amd_ctk("cdi", "generate", "--output", output).returncode == 0

    answer = amd_ctk("cdi", "refresh")

    assert answer.stdout == "".join(f"CDI spec is up to date: {output}\n" for output in outputs)
    files = os.listdir(tmp_path / "host/var/lib/amd-container-toolkit/cdi")
    assert len(files) == 2
    assert all(len(file) < 250 for file in files)
