"""What a container that has ended keeps, by what its engine wrote of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from amd_gpu_tracker.book.history import HOOK
from amd_gpu_tracker.book.history_directory import begin_history
from amd_gpu_tracker.book.lease import Lease, ProcessId, boot_offset
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.policy import Policy
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book, prune_others
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.leases import restarts
from amd_gpu_tracker.leases.lease_scan import preview_leases, prune_leases, scan_leases
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.history.files import read_history
from amdgpu_discovery.host import Host

GPU = "0000:03:00.0/0"


class Ended:
    """A container that has ended, and what is read of it."""

    def __init__(self, directory):
        self.directory = directory
        self.state = State(Host(str(directory)))
        self.state.prepare()
        process = subprocess.Popen(["true"])
        process.wait()
        self.init = ProcessId(pid=process.pid, start=1)

    def write(self, path, content):
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(file)

    def of_docker(self, policy="always", started="2026-11-23T06:39:04.1Z", **more):
        hosts = self.write("docker/c1/hosts", b"")
        self.write("docker/c1/hostconfig.json", {"RestartPolicy": {"Name": policy}})
        self.write("docker/c1/config.v2.json", {"Name": "/web", "State": {"StartedAt": started}})
        self.write("moby/c1/config.json", {"mounts": [{"source": hosts}]})
        return self.lease("moby/c1", **more)

    def of_podman(self, *, autoremove="FALSE", cgroup=""):
        annotations = {"io.podman.annotations.autoremove": autoremove} if autoremove else {}
        spec = {"annotations": annotations, "linux": {"cgroupsPath": cgroup}}
        self.write("storage/overlay-containers/c1/userdata/config.json", spec)
        return self.lease("storage/overlay-containers/c1/userdata")

    def lease(self, bundle, **more):
        lease = Lease(
            container_id="c1",
            root=str(self.directory / "runc"),
            bundle=str(self.directory / bundle),
            creator=self.init,
            init=self.init,
            gpus=(GPU,),
            ways=("env",),
            since=time.time(),
            boot_offset=boot_offset(),
            boot_id=Processes().boot_id,
            namespace=Processes().namespace,
            **more,
        )
        self.state.write_lease(lease)
        return lease

    def kept(self):
        """Return what another container that claims finds."""
        return prune_leases(self.state, Processes(), self.state.lease_paths()).living


@pytest.fixture
def ended(tmp_path):
    return Ended(tmp_path)


@pytest.mark.parametrize("policy", ["always", "unless-stopped", "on-failure"])
def test_a_container_with_a_restart_policy_keeps_its_gpus(ended, policy):
    ended.of_docker(policy)

    (kept,) = ended.kept()

    assert (kept.container_id, kept.gpus, kept.will_restart) == ("c1", (GPU,), True)
    assert kept.bundle == f"{ended.directory}/docker/c1"
    assert ended.kept() == (kept,)


def test_a_preview_foresees_what_is_kept_and_writes_nothing(ended):
    ended.of_docker("always")
    files = {path: Path(path).read_bytes() for path in ended.state.lease_paths()}

    (foreseen,) = preview_leases(ended.state, Processes(), ended.state.lease_paths()).living

    assert {path: Path(path).read_bytes() for path in ended.state.lease_paths()} == files
    (kept,) = ended.kept()
    assert (foreseen.key, foreseen.gpus, foreseen.will_restart) == (kept.key, kept.gpus, True)


@pytest.mark.parametrize("policy", ["no", "", None, 7])
def test_a_container_without_one_keeps_nothing(ended, policy):
    ended.of_docker(policy)

    assert ended.kept() == ()


def test_a_container_that_never_ran_keeps_nothing(ended):
    ended.of_docker(started="0001-01-01T00:00:00Z")

    assert ended.kept() == ()


def test_a_kept_lease_ends_after_a_moment(ended):
    ended.of_docker()
    (kept,) = ended.kept()
    assert kept.until - time.clock_gettime(time.CLOCK_BOOTTIME) == pytest.approx(15, abs=5)

    ended.state.write_lease(kept.replace(until=time.clock_gettime(time.CLOCK_BOOTTIME)))

    assert ended.kept() == ()
    assert ended.state.lease_paths() == []


def test_an_administrator_says_for_how_long(ended):
    ended.state.write_policy(Policy(enabled=True, restart_grace=600))
    ended.of_docker()

    (kept,) = ended.kept()

    assert kept.until - time.clock_gettime(time.CLOCK_BOOTTIME) == pytest.approx(600, abs=5)


@pytest.mark.parametrize("policy", [b"{", Policy(enabled=True, restart_grace=0)])
def test_without_a_grace_nothing_is_kept(ended, policy):
    if isinstance(policy, bytes):
        Path(ended.state.policy_path).parent.mkdir(parents=True, exist_ok=True)
        Path(ended.state.policy_path).write_bytes(policy)
    else:
        ended.state.write_policy(policy)
    ended.of_docker()

    assert ended.kept() == ()


def test_a_container_that_was_stopped_because_its_time_is_over_keeps_nothing(ended):
    ended.of_docker(limit=time.clock_gettime(time.CLOCK_BOOTTIME))

    assert ended.kept() == ()
    assert ended.state.lease_paths() == []


def test_a_kept_lease_ends_with_the_time_of_its_container(ended):
    limit = time.clock_gettime(time.CLOCK_BOOTTIME) + 600
    ended.state.write_policy(Policy(enabled=True, restart_grace=3600))
    ended.of_docker(limit=limit)

    (kept,) = ended.kept()

    assert kept.until == limit


def test_a_kept_lease_ends_when_the_engine_removes_the_container(ended):
    ended.of_docker()
    ended.kept()

    (ended.directory / "docker/c1").rename(ended.directory / "docker/removed")

    assert ended.kept() == ()


def test_reading_leases_changes_nothing(ended):
    lease = ended.of_docker()

    assert scan_leases(ended.state, Processes(), ended.state.lease_paths()).living == ()
    assert ended.state.read_lease(ended.state.lease_path(lease.key)) == lease


@pytest.mark.parametrize("first", ["the hook", "a look"])
def test_the_hook_of_the_end_keeps_too_and_is_never_too_late(ended, first):
    lease = ended.of_docker()
    if first == "a look":
        ended.kept()

    released = release(Book(ended.state, Processes(), LibraryLock), "c1", how=HOOK)

    assert released.dropped == ()
    assert ended.state.read_lease(ended.state.lease_path(lease.key)).will_restart


def test_a_kept_lease_is_released_by_hand(ended):
    ended.of_docker()
    ended.kept()

    assert len(release(Book(ended.state, Processes(), LibraryLock), "c1").dropped) == 1


def test_the_history_has_the_end_of_the_container(ended):
    begin_history(ended.state)
    ended.of_docker()

    ended.kept()
    (ended.directory / "docker/c1").rename(ended.directory / "docker/removed")
    ended.kept()

    assert [used.how for used in read_history(ended.state, since=0, until=1e12)] == ["found"]


@pytest.mark.parametrize(("policy", "keeps"), [("always", True), ("on-failure", True), ("no", False), ("", False)])
@pytest.mark.parametrize("database", ["libpod/bolt_state.db", "db.sql", "libpod/db.sql"])
def test_podmans_policies_stand_in_its_database(ended, database, policy, keeps):
    # Podman 5, which writes db.sql, says nothing of a container that stays.
    ended.of_podman(autoremove="" if database.endswith(".sql") else "FALSE")
    config = {"spec": {}, "id": "c1", "name": "web", "restart_policy": policy}
    path = ended.directory / "storage" / database
    path.parent.mkdir(exist_ok=True)
    if database.endswith(".db"):
        others = [{**config, "id": "c0", "restart_policy": "always"}, {"spec": {}, "id": "c1", "name": "web"}]
        pages = [json.dumps(each, separators=(",", ":")).encode() for each in (others[0], config, others[0])]
        path.write_bytes(b"\0".join(pages))
    else:
        with closing(sqlite3.connect(path)) as written, written:
            written.execute("CREATE TABLE ContainerConfig(ID TEXT, JSON TEXT)")
            written.execute("INSERT INTO ContainerConfig VALUES('c1', ?)", (json.dumps(config),))

    assert [lease.container_id for lease in ended.kept()] == (["c1"] if keeps else [])


@pytest.mark.parametrize("content", [b"", b"\xff" * 5000, b'"id":"c1","name":', b'"id":"c1","name":"restart_policy":"'])
def test_a_database_that_cannot_be_read_keeps_nothing(ended, content):
    ended.of_podman()
    ended.write("storage/libpod/bolt_state.db", content)
    ended.write("storage/db.sql", content)

    assert ended.kept() == ()


@pytest.fixture
def unit(tmp_path, monkeypatch):
    """Return a function that writes a service, with a drop-in, to the places where systemd looks."""
    directories = tuple(str(tmp_path / name) for name in ("etc", "generator"))
    monkeypatch.setattr(restarts, "DIRECTORIES", directories)

    def write(text, drop_in=None):
        for directory in (directories[1], f"{directories[0]}/web.service.d"):
            (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / "generator/web.service").write_text(text)
        if drop_in is not None:
            (tmp_path / "etc/web.service.d/10-restart.conf").write_text(drop_in)

    return write


IN_UNIT = "/system.slice/web.service/libpod-payload-c1"


@pytest.mark.parametrize(
    ("text", "drop_in", "keeps"),
    [
        ("[Service]\nRestart=always\n", None, True),
        ("[Service]\nRestart=no\n", None, False),
        ("[Service]\n", None, False),
        ("[Service]\nRestart=always\n", "[Service]\nRestart=no\n", False),
        ("[Service]\n", "[Service]\nRestart=on-failure\n", True),
    ],
)
def test_a_container_of_quadlet_keeps_its_gpus_for_its_unit(ended, unit, monkeypatch, text, drop_in, keeps):
    unit(text, drop_in)
    ended.of_podman(autoremove="TRUE", cgroup=IN_UNIT)

    assert [lease.unit for lease in ended.kept()] == (["web.service"] if keeps else [])

    # A container of another unit, and then the next one of this unit.
    for own, expected in (("other.service", keeps), ("web.service", False)):
        monkeypatch.setattr(restarts, "own_unit", lambda own=own: own)
        scan = prune_others(Book(ended.state, Processes()), ended.state.lease_paths())
        assert bool(scan.living) is expected
