"""A lease lives exactly as long as its container's processes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from amd_gpu_tracker.leases import cgroup, liveness
from amd_gpu_tracker.leases.liveness import ALIVE, DEAD, UNKNOWN, Liveness, is_known_to_runtime, judge
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.untrusted.plain_files import read_plain_file


@pytest.fixture
def lease_of(machine):
    """Return a function that makes the lease of a container whose creator is gone, changed as the test says."""

    def make(**changes):
        creator = machine.start_process()
        machine.claim("c1", [0], creator=creator)
        machine.kill(creator)
        lease = machine.state.read_lease(machine.state.lease_path(("/run/runc", "c1")))
        return lease.replace(**changes)

    return make


def test_a_lease_lives_while_the_container_is_made(machine):
    creator = machine.start_process()
    machine.claim("c1", [0], creator=creator)

    assert machine.users()[0] == ["c1"]

    machine.kill(creator)
    assert machine.users()[0] == []


def test_a_lease_lives_with_the_init_in_the_pid_file(machine):
    init = machine.create("c1", [0])

    assert machine.users()[0] == ["c1"]

    machine.kill(init)
    assert machine.users()[0] == []


def test_an_init_that_nobody_collected_is_dead(machine):
    init = machine.create("c1", [0])

    machine.start_process(init, state="Z")

    assert machine.users()[0] == []


def test_an_init_whose_first_thread_ended_lives_with_the_others(machine):
    init = machine.create("c1", [0])
    machine.start_process(init, state="Z")

    for thread in ("1", "2"):
        (machine.proc / str(init) / "task" / thread).mkdir(parents=True)

    assert machine.users()[0] == ["c1"]


def test_a_new_process_with_the_pid_of_the_init_is_another(machine):
    init = machine.create("c1", [0])
    os.utime(machine.directory / "c1.pid", (time.time() - 60, time.time() - 60))
    machine.kill(init)

    machine.start_process(init)

    assert machine.users()[0] == []


def test_an_init_once_found_is_kept_and_needs_its_pid_file_no_more(machine):
    init = machine.create("c1", [0])
    machine.create("c2", [0])
    (machine.directory / "c1.pid").unlink()

    assert machine.users()[0] == ["c1", "c2"]

    machine.kill(init)
    assert machine.users()[0] == ["c2"]


@pytest.mark.parametrize("step", [3600, -3600])
def test_setting_the_clock_loses_no_lease(machine, lease_of, monkeypatch, step):
    pid_file = machine.directory / "pid"
    pid_file.write_text(str(machine.start_process()))
    lease = lease_of(pid_file=str(pid_file))
    real = time.time

    monkeypatch.setattr(time, "time", lambda: real() + step)

    assert judge(lease, machine.processes).is_alive


@pytest.mark.parametrize("days", [10, -10])
def test_setting_the_clock_changes_no_duration(machine, monkeypatch, days):
    machine.create("c1", [0])
    wall = time.time

    monkeypatch.setattr(time, "time", lambda: wall() + days * 86400)

    (use,) = machine.tracker.status().gpus[0].containers
    assert 0 <= time.time() - use.since < 3600


def test_the_lease_of_an_earlier_boot_is_over(machine, lease_of):
    lease = lease_of(boot_id="boot-0", init=machine.processes.find(1))

    assert judge(lease, machine.processes) == DEAD


def test_a_lease_of_another_pid_namespace_cannot_be_judged_and_is_kept(machine, lease_of):
    assert judge(lease_of(namespace="pid:[1]"), machine.processes) == UNKNOWN


def test_where_processes_of_others_are_hidden_a_lease_is_kept(machine, lease_of):
    lease = lease_of()
    assert judge(lease, machine.processes) == DEAD

    machine.kill(1)

    assert judge(lease, machine.processes) == UNKNOWN


def test_the_maker_of_the_container_may_say_that_it_is_over(machine):
    creator = machine.start_process()
    machine.claim("c1", [0], creator=creator)
    lease = machine.state.read_lease(machine.state.lease_path(("/run/runc", "c1")))

    assert judge(lease, machine.processes) == ALIVE
    assert judge(lease, machine.processes, creator_is_done=True) == DEAD


@pytest.mark.parametrize("content", ["", "x", "-1", "0", "999999"])
def test_a_pid_file_that_names_no_process_proves_nothing(machine, lease_of, content):
    pid_file = machine.directory / "pid"
    pid_file.write_text(content)

    assert judge(lease_of(pid_file=str(pid_file)), machine.processes) == DEAD


@pytest.mark.parametrize(
    ("name", "pid_field", "start_field"),
    [("state.json", "init_process_pid", "init_process_start"), ("status", "pid", "process-start-time")],
)
def test_without_a_pid_file_the_runtimes_state_proves_life(machine, lease_of, name, pid_field, start_field):
    init = machine.processes.find(machine.start_process())
    root = machine.directory / "root"
    (root / "c1").mkdir(parents=True)
    (root / "c1" / name).write_text(json.dumps({pid_field: init.pid, start_field: init.start}))
    lease = lease_of(root=str(root))

    assert judge(lease, machine.processes) == Liveness(is_alive=True, found_init=init)

    machine.kill(init.pid)
    assert judge(lease, machine.processes) == DEAD


def test_for_a_container_without_state_no_json_is_imported(machine, lease_of):
    lease_path = machine.state.lease_path(("/run/runc", "c1"))
    lease_of()
    code = (
        "import sys; from amd_gpu_tracker.leases.liveness import judge;"
        " from amd_gpu_tracker.leases.processes import Processes; from amd_gpu_tracker.book.lease import parse_lease;"
        f" lease = parse_lease(open({lease_path!r}, 'rb').read());"
        f" print(judge(lease, Processes({str(machine.proc)!r})).is_alive, 'json' in sys.modules)"
    )

    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout == "False False\n"


def test_a_runtime_knows_the_containers_of_its_own_root(machine):
    root = machine.directory / "root"
    (root / "c1").mkdir(parents=True)

    assert is_known_to_runtime(str(root), "c1")
    assert not is_known_to_runtime(str(root), "c2")
    assert not is_known_to_runtime(str(machine.directory / "nowhere"), "c1")


def test_without_a_root_it_is_the_users_own(machine, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.directory))
    (machine.directory / "crun" / "c1").mkdir(parents=True)

    assert is_known_to_runtime("", "c1")
    assert not is_known_to_runtime("", "c2")


def test_state_of_a_shape_nobody_knows_proves_nothing(machine, lease_of):
    root = machine.directory / "root"
    (root / "c1").mkdir(parents=True)
    (root / "c1" / "state.json").write_text("[1]")

    assert judge(lease_of(root=str(root)), machine.processes) == DEAD


def test_a_container_in_the_hosts_pid_namespace_lives_with_its_cgroup(machine, lease_of, monkeypatch):
    occupied = {"/docker/c1"}
    monkeypatch.setattr(cgroup, "has_processes", lambda path: path in occupied)
    lease = lease_of(cgroup="/docker/c1")

    assert judge(lease, machine.processes) == ALIVE

    occupied.clear()
    assert judge(lease, machine.processes) == DEAD


def test_start_times_are_those_of_the_kernel(machine):
    me = Processes().myself()

    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert me.pid == os.getpid()
    assert 0 < me.started <= since_boot
    assert Processes().is_running(me)
    assert not Processes().is_running(me.replace(start=me.start + 1))


def test_a_file_that_cannot_be_read_is_no_proof_of_death(machine, lease_of):
    # What is there and cannot be read as a file: root may read everything else.
    directory = machine.directory / "a-directory"
    directory.mkdir()

    assert judge(lease_of(pid_file=str(directory)), machine.processes) == UNKNOWN


@pytest.fixture
def as_user(monkeypatch):
    """Let what root's runtime keeps be unreadable, as it is to users once root has run a container."""

    def read_as_user(path, **options):
        if "/runc/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return read_plain_file(path, **options)

    monkeypatch.setattr(liveness, "read_plain_file", read_as_user)


@pytest.mark.parametrize(
    ("root", "has_pid_file", "verdict"),
    [("", True, DEAD), ("", False, UNKNOWN), ("/run/user/1000/runc", True, UNKNOWN)],
)
@pytest.mark.usefixtures("as_user")
def test_a_directory_of_roots_runtime_says_nothing_of_a_rootless_container(
    machine, lease_of, root, has_pid_file, verdict
):
    pid_file = machine.directory / "pid"
    pid_file.write_text("999999")

    assert judge(lease_of(root=root, pid_file=str(pid_file) if has_pid_file else ""), machine.processes) == verdict


@pytest.mark.usefixtures("as_user")
def test_a_directory_of_roots_runtime_says_nothing_of_a_job(machine, lease_of):
    assert judge(lease_of(root="", ways=("api",)), machine.processes) == DEAD


@pytest.mark.usefixtures("as_user")
def test_a_job_that_became_the_runtime_of_a_container_of_its_name_is_kept_as_that(machine):
    # As `amd-ctk run --name=c1 -- amd-container-runtime run --detach c1`.
    process = machine.start_process()
    machine.claim("c1", [0], creator=process, root="", ways=("api",))
    machine.claim("c1", [0], creator=process, root="")
    machine.kill(process)
    lease = machine.state.read_lease(machine.state.lease_path(("", "c1")))

    assert lease.ways == ("api", "env")
    assert judge(lease, machine.processes) == UNKNOWN
