"""Edits on disks that are full, read-only or closed, and of files that others are writing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amd_ctk.configuration.edit import ConfigFileError, prepare_edit, save
from amd_ctk.configuration.ledger import Changes, Ledger, Record, set_keys
from amd_ctk.engines.docker import DOCKER
from amdgpu_discovery.command_line.document import Document
from amdgpu_discovery.command_line.edited import ConfigFile

ORIGINAL = '{\n  "debug": true\n}\n'


def turn_cdi_on(document: Document, changes: Changes) -> tuple[Document, Changes]:
    return set_keys(document, [(("features", "cdi"), True)], changes)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory that every user can reach."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def daemon_json(directory: Path) -> Path:
    path = directory / "docker/daemon.json"
    path.parent.mkdir()
    path.write_text(ORIGINAL)
    return path


@pytest.fixture
def ledger(directory: Path) -> Ledger:
    (directory / "state").mkdir()
    return Ledger(str(directory / "state"))


def test_a_file_that_changed_since_it_was_read_is_left_alone(daemon_json: Path, ledger: Ledger) -> None:
    file = ConfigFile(path=str(daemon_json), shown="/etc/docker/daemon.json")
    edited = prepare_edit(DOCKER, file, turn_cdi_on, Record())
    daemon_json.write_text("{}")

    with pytest.raises(ConfigFileError) as refused:
        save(edited, ledger)

    assert (
        str(refused.value) == "failed to save the config: /etc/docker/daemon.json changed in the meantime (try again)"
    )
    assert daemon_json.read_text() == "{}"
    assert os.listdir(daemon_json.parent) == ["daemon.json"]
    assert ledger.get(file.shown) == Record()


def test_a_file_that_appeared_since_is_left_alone(daemon_json: Path, ledger: Ledger) -> None:
    daemon_json.unlink()
    file = ConfigFile(path=str(daemon_json), shown="/etc/docker/daemon.json")
    edited = prepare_edit(DOCKER, file, turn_cdi_on, Record())
    daemon_json.write_text(ORIGINAL)

    with pytest.raises(ConfigFileError, match="changed in the meantime"):
        save(edited, ledger)

    assert daemon_json.read_text() == ORIGINAL


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is needed, which only root can make")
def test_a_file_of_somebody_else_is_left_alone(daemon_json: Path, ledger: Ledger) -> None:
    file = ConfigFile(path=str(daemon_json), shown="/etc/docker/daemon.json")
    os.seteuid(65534)
    try:
        edited = prepare_edit(DOCKER, file, turn_cdi_on, Record())
        with pytest.raises(ConfigFileError) as refused:
            save(edited, ledger)
    finally:
        os.seteuid(0)

    assert str(refused.value) == (
        "failed to save the config: failed to open file: /etc/docker/daemon.json | err: access is refused "
        "(run the command with sudo)"
    )
    assert daemon_json.read_text() == ORIGINAL
    assert os.listdir(daemon_json.parent) == ["daemon.json"]


def test_a_record_that_cannot_be_written_leaves_the_file_alone(daemon_json: Path, ledger: Ledger) -> None:
    file = ConfigFile(path=str(daemon_json), shown="/etc/docker/daemon.json")
    edited = prepare_edit(DOCKER, file, turn_cdi_on, Record())
    Path(ledger.path).parent.rmdir()

    with pytest.raises(Exception, match="cannot be written: it does not exist"):
        save(edited, ledger)

    assert daemon_json.read_text() == ORIGINAL
    assert sorted(os.listdir(daemon_json.parent)) == ["daemon.json", "daemon.json.before-amd-ctk"]


@pytest.fixture
def on_a_disk(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a function that runs lines of shell with a small disk of their own, mounted at $DISK."""
    (tmp_path / "host/disk").mkdir(parents=True)

    def run(lines: str) -> subprocess.CompletedProcess[str]:
        program = os.path.join(os.path.dirname(sys.executable), "amd-ctk")
        script = (
            'set -e; mount -t tmpfs -o size=16k tmpfs "$DISK"\n'
            f"configure() {{ {program} runtime configure --no-validate --runtime-path=/usr/bin/amd-container-runtime "
            '--config-path=/disk/daemon.json "$@" || echo "rc $?"; }\n' + lines
        )
        environment = {
            "PATH": os.environ["PATH"], "DISK": str(tmp_path / "host/disk"), "HOME": str(tmp_path),
            "AMD_CTK_HOST_ROOT": str(tmp_path / "host"),
        }  # fmt: skip
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if "unshare failed" in done.stderr:
            pytest.skip("this machine gives its users no mounts of their own")
        return done

    return run


def test_a_full_disk_leaves_the_file_alone(
    on_a_disk: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = on_a_disk(
        'echo "{}" > "$DISK/daemon.json"; head -c 20000 /dev/zero > "$DISK/filler" 2>/dev/null || true\n'
        'configure; cat "$DISK/daemon.json"; ls "$DISK"'
    )

    assert done.stdout.splitlines()[1:] == ["rc 1", "{}", "daemon.json", "filler"]
    assert done.stderr.splitlines()[1:] == [
        "failed to save the config: failed to open file: /disk/daemon.json | err: the disk is full"
    ]
    assert not (tmp_path / "host/var/lib/amd-container-toolkit/engine-configuration.json").exists()


def test_a_read_only_file_system_is_named(
    on_a_disk: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = on_a_disk(
        'echo "{}" > "$DISK/daemon.json"; mount -o remount,ro "$DISK"\nconfigure; cat "$DISK/daemon.json"; ls "$DISK"'
    )

    assert done.stdout.splitlines()[1:] == ["rc 1", "{}", "daemon.json"]
    assert done.stderr.splitlines()[1:] == [
        ("failed to save the config: failed to open file: /disk/daemon.json | err: the file system is read-only")
    ]


def test_a_file_that_is_a_mount_of_its_own_cannot_be_replaced_and_is_left_alone(
    on_a_disk: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = on_a_disk(
        'echo "{}" > "$DISK/other"; : > "$DISK/daemon.json"; mount --bind "$DISK/other" "$DISK/daemon.json"\n'
        'configure; cat "$DISK/daemon.json"; ls "$DISK"'
    )

    assert done.stdout.splitlines()[1:] == ["rc 1", "{}", "daemon.json", "daemon.json.before-amd-ctk", "other"]
    assert done.stderr.splitlines()[1] == (
        "failed to save the config: failed to open file: /disk/daemon.json | err: it is a mount point and cannot"
        " be replaced (edit the file at the source of the mount, or mount its directory instead)"
    )
    record = tmp_path / "host/var/lib/amd-container-toolkit/engine-configuration.json"
    assert json.loads(record.read_text()) == {"files": {}}
