from __future__ import annotations

import os
import shutil
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from amdgpu_discovery.files import read_file
from amdgpu_discovery.usage import drm_clients
from amdgpu_discovery.usage.budget import Budget
from amdgpu_discovery.usage.drm_clients import scan_drm_clients

FDINFO = "drm-driver:\tamdgpu\ndrm-client-id:\t4\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t1 MiB\n"


class Proc:
    """A /proc with processes that have files open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def open(self, pid: int, descriptor: int, target: str, fdinfo: str = FDINFO) -> None:
        for name in ("fd", "fdinfo"):
            (self.directory / str(pid) / name).mkdir(parents=True, exist_ok=True)
        (self.directory / str(pid) / "fd" / str(descriptor)).symlink_to(target)
        (self.directory / str(pid) / "fdinfo" / str(descriptor)).write_text(fdinfo)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


def seen(proc: Proc) -> list[tuple[int, str]]:
    return [(use.pid, use.node) for use in scan_drm_clients(str(proc.directory)).uses]


def test_only_drm_nodes_are_read(proc):
    proc.open(12, 3, "/dev/dri/renderD128")
    proc.open(12, 4, "socket:[77]", "drm-driver:\tamdgpu\n")
    proc.open(9, 0, "/dev/dri/card1 (deleted)")
    proc.open(9, 1, "/dev/dri/../null", "pos:\t0\n")

    assert seen(proc) == [(9, "card1 (deleted)"), (12, "renderD128")]


def test_only_the_processes_that_are_named_are_looked_into(proc):
    proc.open(12, 3, "/dev/dri/renderD128")
    proc.open(13, 3, "/dev/dri/renderD129")
    (proc.directory / "14").mkdir()

    scan = scan_drm_clients(str(proc.directory), only={13, 15})

    assert [(use.pid, use.node) for use in scan.uses] == [(13, "renderD129")]
    assert scan.not_reached == 0


def test_processes_that_end_meanwhile_are_left_out(proc, monkeypatch):
    proc.open(12, 3, "/dev/dri/renderD128")
    proc.open(13, 3, "/dev/dri/renderD129")

    def read_late(path, **options):
        if "/12/" in path:
            shutil.rmtree(proc.directory / "12", ignore_errors=True)
        return read_file(path, **options)

    monkeypatch.setattr(drm_clients, "read_file", read_late)

    assert seen(proc) == [(13, "renderD129")]


def test_processes_that_are_refused_are_counted_and_threads_of_the_kernel_are_not(proc, monkeypatch):
    for pid, flags in ((2, 0x208040), (700, 0x400000), (701, 0x400100)):
        (proc.directory / str(pid)).mkdir()
        (proc.directory / str(pid) / "stat").write_text(f"{pid} (a) b) S 1 1 1 0 -1 {flags} 0\n")

    def refuse(path, flags, *rest, **options):
        if path.endswith("/fd"):
            raise PermissionError(13, "Permission denied", path)
        return os.open(path, flags, *rest, **options)

    monkeypatch.setattr(drm_clients.posix, "open", refuse, raising=True)

    assert scan_drm_clients(str(proc.directory)).refused == (700, 701)


def test_the_cost_of_one_process_is_bounded(proc, monkeypatch):
    monkeypatch.setattr(drm_clients, "MOST_OPEN_NODES", 3)
    monkeypatch.setattr(drm_clients, "MOST_PROCESS_DESCRIPTORS", 20)
    for descriptor in range(10):
        proc.open(12, descriptor, "/dev/dri/renderD128", FDINFO.replace("id:\t4", f"id:\t{descriptor}"))
    for descriptor in range(30):
        proc.open(13, descriptor, "socket:[1]")
    proc.open(14, 3, "/dev/dri/renderD128", f"{FDINFO}{'x' * 300000}")

    scan = scan_drm_clients(str(proc.directory))

    assert [use.pid for use in scan.uses] == [12, 12, 12]
    assert scan.cut_short == (12, 13, 14)


def test_locks_on_a_descriptor_do_not_hide_the_client(proc):
    locks = "lock:\t1: POSIX  ADVISORY  WRITE 12 00:05:300 0 0\n" * 400
    proc.open(12, 3, "/dev/dri/renderD128", f"pos:\t0\n{locks}{FDINFO}")

    assert seen(proc) == [(12, "renderD128")]
    assert scan_drm_clients(str(proc.directory)).cut_short == ()


def test_a_client_counts_once_for_a_process_with_many_descriptors_of_it(proc):
    for descriptor in range(5):
        proc.open(12, descriptor, "/dev/dri/renderD128")
    proc.open(12, 9, "/dev/dri/renderD129")

    assert sorted(seen(proc)) == [(12, "renderD128"), (12, "renderD129")]


def limit(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Let a look read so much of the processes of each user."""
    most = {"links": 1000, "readings": 1000, "most_bytes": 1_000_000, **limits}
    monkeypatch.setattr(drm_clients, "budget_of", lambda _: Budget(**most))


@pytest.mark.parametrize("limits", [{"links": 25}, {"readings": 25}, {"most_bytes": 25 * len(FDINFO)}])
def test_the_cost_of_all_processes_of_a_user_is_bounded(proc, monkeypatch, limits):
    limit(monkeypatch, **limits)
    for pid in range(11, 15):
        for descriptor in range(10):
            proc.open(pid, descriptor, f"/dev/dri/renderD{128 + descriptor}")

    scan = scan_drm_clients(str(proc.directory))

    assert [use.pid for use in scan.uses] == [11] * 10 + [12] * 10 + [13] * 5
    assert scan.cut_short == (13, 14)


def owned(proc: Proc, pid: int, *, uids: str = "0\t0", cgroup: str = "/") -> None:
    """Give a process to a user: by its real and effective uid, and by its cgroup."""
    (proc.directory / str(pid) / "status").write_text(f"Name:\ta\\nUid:\t9\nUid:\t{uids}\t0\t0\n")
    (proc.directory / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")


def found_of_each(proc: Proc, **options) -> dict[int, int]:
    """Return how many clients of each process are found."""
    uses = scan_drm_clients(str(proc.directory), **options).uses
    return dict(Counter(use.pid for use in uses))


def open_five(proc: Proc, *pids: int) -> None:
    for pid in pids:
        for descriptor in range(5):
            proc.open(pid, descriptor, f"/dev/dri/renderD{128 + descriptor}")


def test_one_user_does_not_use_up_the_budget_of_another(proc, monkeypatch):
    limit(monkeypatch, links=3)
    open_five(proc, 11, 12)
    owned(proc, 12, uids="1000\t1000")

    assert found_of_each(proc) == {11: 3, 12: 3}
    assert scan_drm_clients(str(proc.directory)).cut_short == (11, 12)


def test_a_program_that_becomes_root_is_charged_to_the_user_who_started_it(proc, monkeypatch):
    limit(monkeypatch, links=7)
    open_five(proc, 11, 12, 13, 14)
    owned(proc, 11, uids="1000\t0")
    owned(proc, 12, uids="0\t0", cgroup="/user.slice/user-1000.slice/session-2.scope")
    owned(proc, 13, uids="100007\t100007", cgroup="/user.slice/user-1000.slice/user@1000.service/a.scope")
    owned(proc, 14)

    assert found_of_each(proc) == {11: 5, 12: 2, 14: 5}


def test_subordinate_ids_share_one_budget(proc, monkeypatch):
    limit(monkeypatch, links=7)
    open_five(proc, 11, 12, 13)
    for pid in (11, 12, 13):
        owned(proc, pid, uids=f"{100000 + pid}\t0", cgroup="/user.slice-of-nobody")

    assert found_of_each(proc) == {11: 5, 12: 2}


def test_a_container_that_has_slices_of_users_inside_is_charged_as_one(proc, monkeypatch):
    limit(monkeypatch, links=7)
    open_five(proc, 11, 12)
    for pid in (11, 12):
        owned(proc, pid, cgroup=f"/lxc.payload.a/user.slice/user-{pid}.slice")

    assert found_of_each(proc) == {11: 5, 12: 2}


def test_computing_processes_and_those_in_containers_are_looked_at_first(proc, monkeypatch):
    limit(monkeypatch, links=10)
    open_five(proc, 11, 12, 13, 14)
    owned(proc, 13, cgroup=f"/system.slice/docker-{'9f' * 32}.scope")

    assert found_of_each(proc, first={14}) == {13: 5, 14: 5}


def test_a_scan_ends_after_some_seconds(proc):
    open_five(proc, 11, 12, 13)
    seconds = count()

    scan = scan_drm_clients(str(proc.directory), clock=lambda: next(seconds) * 0.5)

    assert (len(scan.uses), scan.cut_short, scan.not_reached) == (5, (12,), 1)


def test_the_processes_of_this_machine_are_read():
    scan = scan_drm_clients("/proc")

    assert all(use.client.client_id for use in scan.uses)
