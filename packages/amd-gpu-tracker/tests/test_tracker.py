"""The operations by the names users know."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading

import pytest

from amd_gpu_tracker.book.policy import Policy
from amd_gpu_tracker.claims.accessibility import AccessibilityChange
from amd_gpu_tracker.errors import (
    ContainerRunning,
    GpusChanged,
    GpusRefused,
    NotPermitted,
    StateError,
    TrackerDisabled,
)
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.status import GpuUse, Status
from amdgpu_discovery.errors import DriverUnavailable, RequestError
from amdgpu_simulator import load_profile

CORRUPT = [
    b"",
    b"\0\0\0\0",
    b'{"version":1,"enabled":true,"gpus":[{"key"',
    b"[]",
    b"null",
    b'{"enabled":true,"gpus":[]}',
    b'{"version":0,"enabled":true,"gpus":[]}',
    b'{"version":"2","enabled":true,"gpus":[]}',
    b'{"version":1,"enabled":"yes","gpus":[]}',
    b'{"version":1,"enabled":false,garbage',
    b'{"version":1,"enabled":false,"gpus":[]}}',
    b'{"version":1,"enabled":false,"gpus":[',
    b'{"version":1,"enabled":true,"gpus":{"0":1}}',
    b'{"version":1,"enabled":true,"gpus":[{"key":1,"unique_id":"0x1","partition":"","partition_total":1,"exclusive":0}]}',
    b"[" * 100_000,
]


def accessibility(machine):
    return {gpu.number: gpu.accessibility for gpu in machine.tracker.status().gpus}


def test_the_tracker_is_disabled_at_first(untracked):
    assert untracked.tracker.status() == Status(enabled=False)
    assert untracked.tracker.disable() is False
    assert untracked.tracker.set_accessibility("0", exclusive=True) == AccessibilityChange(tracked=False)


@pytest.fixture
def user(machine, monkeypatch):
    """Return the machine as a logged-in user has it, whose own rootless container has GPU 3."""
    user = machine.as_rootless_user()
    user.create("rootless", [3])
    monkeypatch.setattr("amd_gpu_tracker.face.tracker.open_state", lambda *_: user.state)
    return user


@pytest.mark.parametrize("seconds", [-1, 3601])
def test_a_grace_that_no_policy_may_have_is_refused(machine, seconds):
    with pytest.raises(RequestError, match=f"{seconds} is not a number of seconds from 0 to 3600"):
        machine.tracker.settings.set_restart_grace(seconds)

    assert machine.tracker.settings.restart_grace() == 15


@pytest.mark.parametrize(
    "change",
    [
        lambda tracker: tracker.settings.ignore_user(True),
        lambda tracker: tracker.settings.ignore_user(1.5),
        lambda tracker: tracker.settings.set_restart_grace(1.5),
        lambda tracker: tracker.settings.require_reservation(required="no"),
        lambda tracker: tracker.settings.set_exclusive_to_pods(shared=None),
        lambda tracker: tracker.set_accessibility("1", exclusive="no"),
        lambda tracker: tracker.drain("1", reason=["fan swap"]),
        lambda tracker: tracker.drain("1", until=True),
    ],
)
def test_a_program_with_a_wrong_type_writes_nothing_that_nobody_reads(machine, change):
    before = machine.tracker.status()

    with pytest.raises(ValueError, match=r"not |number"):
        change(machine.tracker)

    assert machine.tracker.status() == before
    assert machine.tracker.settings.ignored_users() == ()


@pytest.mark.parametrize("uid", [-1, 4294967295])
def test_a_number_that_is_no_user_is_not_ignored(machine, uid):
    with pytest.raises(RequestError, match=f"{uid} is not the number of a user"):
        machine.tracker.settings.ignore_user(uid)

    assert machine.tracker.settings.ignored_users() == ()


def test_a_preview_by_a_user_says_what_root_would_do(machine, user):
    machine.create("c1", [1])
    machine.create("c2", [1])

    preview = user.tracker.preview_accessibility("all", exclusive=True)

    assert (preview.changed, preview.in_use, preview.rootless) == ((0, 2), (1,), (3,))
    assert user.tracker.preview_accessibility("free:1", exclusive=True).changed == (0,)


NEEDS_ROOT = re.escape("changing the GPU Tracker needs root (run the command with sudo)")


@pytest.mark.parametrize(
    "change",
    [
        lambda tracker: tracker.disable(),
        lambda tracker: tracker.reset(),
        lambda tracker: tracker.set_accessibility("0", exclusive=True),
        lambda tracker: tracker.drain("0"),
        lambda tracker: tracker.settings.require_reservation(),
        lambda tracker: tracker.settings.ignore_user(1000),
    ],
)
def test_a_logged_in_user_is_told_that_changes_need_root(user, change):
    with pytest.raises(NotPermitted, match=NEEDS_ROOT):
        change(user.tracker)


def test_a_user_who_may_not_enable_the_tracker_keeps_the_own_leases(user):
    leases = user.lease_files()
    user.state.write_policy(Policy())

    with pytest.raises(NotPermitted, match=NEEDS_ROOT):
        user.tracker.enable()

    assert len(leases) == 1
    assert user.lease_files() == leases


def test_enabling_begins_with_shared_gpus_and_no_containers(untracked):
    assert untracked.tracker.enable() is True

    assert untracked.tracker.status() == Status(
        enabled=True,
        gpus=tuple(
            GpuUse(
                number=number,
                uuid=uuid,
                pci_address=address,
                key=f"{address}/0",
                accessibility="shared",
                containers=(),
            )
            for number, uuid, address in (
                (0, "0xEA35F57CC80DEB35", "0000:03:00.0"),
                (1, "0x89CAA15875FF5A43", "0000:26:00.0"),
                (2, "0x6E32F10EFC982B4C", "0000:43:00.0"),
                (3, "0x12FE4F7FDAF06B9", "0000:63:00.0"),
            )
        ),
    )
    assert untracked.tracker.enable() is False


def test_disabling_and_enabling_forgets_everything(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("c1", [1])

    assert machine.tracker.disable() is True
    machine.tracker.enable()

    assert set(accessibility(machine).values()) == {"shared"}
    assert machine.users() == {0: [], 1: [], 2: [], 3: []}


def test_reset_keeps_running_containers_and_whether_the_tracker_is_enabled(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("c1", [1])
    machine.kill(machine.create("gone", [2]))
    machine.tracker.reserve("3", name="job", pid=machine.start_process())
    told = []

    assert machine.tracker.reset(tell=told.append) is True

    assert told == ["container c1 is running and uses GPUs [1]", "job job is running and uses GPUs [3]"]
    assert set(accessibility(machine).values()) == {"shared"}
    assert machine.users() == {0: [], 1: ["c1"], 2: [], 3: ["job"]}
    machine.tracker.disable()
    assert machine.tracker.reset() is False
    assert machine.tracker.is_enabled() is False


def test_a_reset_by_force_forgets_running_jobs_and_names_them(machine):
    machine.tracker.reserve("3", name="job", pid=machine.start_process())
    machine.tracker.reserve("0-1", name="of-a-person", pid=machine.start_process())
    told = []

    assert machine.tracker.reset(force=True, tell=told.append) is True

    assert told == [
        "job job is running, and its reservation of GPUs [3] is forgotten",
        "job of-a-person is running, and its reservation of GPUs [0 1] is forgotten",
    ]
    assert machine.lease_files() == []


def test_a_reset_names_the_job_of_a_person_by_its_name_and_the_persons(machine):
    machine.tracker.reserve("3", name="job", pid=machine.start_process())
    [path] = machine.state.lease_paths()
    lease = machine.state.read_lease(path)
    machine.state.remove_lease(path)
    machine.state.write_lease(lease.replace(container_id="4242/train", person=4242))
    told = []

    machine.tracker.reset(tell=told.append)

    assert told == ["job train of user 4242 is running and uses GPUs [3]"]


def test_a_job_on_a_board_that_was_repartitioned_keeps_all_of_it(machine_of, tmp_path):
    machine = machine_of("mi300x-8", tmp_path / "before")
    machine.tracker.enable()
    machine.tracker.reserve("1", name="job", pid=machine.start_process())
    parts = machine_of("mi300x-8-cpx", tmp_path / "after")
    for name in ("sys", "dev"):
        shutil.rmtree(machine.host.path(f"/{name}"))
        os.rename(parts.host.path(f"/{name}"), machine.host.path(f"/{name}"))

    machine.tracker.reset()

    assert [number for number, users in machine.users().items() if users] == [*range(8, 16)]


def test_gpus_that_several_containers_use_stay_shared(machine):
    machine.create("first", [0, 1])
    machine.create("second", [1])

    change = machine.tracker.set_accessibility("0-2", exclusive=True)

    assert change == AccessibilityChange(tracked=True, changed=(0, 2), in_use=(1,))
    assert accessibility(machine) == {0: "exclusive", 1: "shared", 2: "exclusive", 3: "shared"}


def test_containers_that_are_gone_do_not_count(machine):
    machine.create("first", [1])
    machine.kill(machine.create("second", [1]))

    assert machine.tracker.set_accessibility("1", exclusive=True).changed == (1,)


@pytest.mark.parametrize("request_text", ["auto:99", "all+gfx1", "auto:1+group:none"])
def test_a_request_that_means_nothing_removes_no_lease(machine, request_text):
    machine.kill(machine.create("gone", [1]))
    before = list(machine.state.lease_paths())

    with pytest.raises(RequestError):
        machine.tracker.set_accessibility(request_text, exclusive=True)

    assert list(machine.state.lease_paths()) == before != []


def test_words_that_name_no_gpu_are_passed_over_and_reported(machine):
    change = machine.tracker.set_accessibility("7,9-8,abc,1,2-5", exclusive=True)

    assert change == AccessibilityChange(
        tracked=True, changed=(1, 2, 3), broken_ranges=("9-8",), unknown=("7", "abc", "4", "5")
    )


def test_accessibility_survives_a_reboot_that_renumbers_cards(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("c1", [1])

    machine.boot()
    machine.renumber_cards()

    assert accessibility(machine) == {0: "shared", 1: "exclusive", 2: "shared", 3: "shared"}
    assert machine.users() == {0: [], 1: [], 2: [], 3: []}
    machine.create("c2", [1])


def test_a_repartition_is_noticed_by_all(machine_of, tmp_path):
    machine = machine_of("mi210-4", tmp_path / "before")
    machine.tracker.enable()
    repartitioned = machine_of("mi300x-8-cpx", tmp_path / "after")
    shutil.copytree(machine.host.path("/var/lib"), repartitioned.host.path("/var/lib"), dirs_exist_ok=True)
    operations = (
        repartitioned.tracker.status,
        lambda: repartitioned.tracker.set_accessibility("0", exclusive=True),
        lambda: repartitioned.create("c1", [0]),
    )

    for operation in operations:
        with pytest.raises(GpusChanged, match=r"^GPUs info is invalid\. Please reset GPU Tracker\.$"):
            operation()

    repartitioned.tracker.reset()
    for operation in operations:
        operation()


def test_another_memory_partition_alone_is_noticed(machine_of):
    machine = machine_of("mi300x-8")
    machine.tracker.enable()
    address = machine.tracker.status().gpus[0].pci_address
    file = machine.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/current_memory_partition")
    with open(file, "w") as attribute:
        attribute.write("NPS4\n")

    with pytest.raises(GpusChanged):
        machine.tracker.status()


@pytest.mark.parametrize("content", CORRUPT)
def test_a_policy_that_cannot_be_understood_stops_all_but_reset(machine, content):
    with open(machine.state.policy_path, "wb") as file:
        file.write(content)

    for operation in (
        machine.tracker.status,
        machine.tracker.enable,
        machine.tracker.disable,
        lambda: machine.tracker.set_accessibility("0", exclusive=True),
        lambda: machine.create("c1", [0]),
    ):
        with pytest.raises(StateError) as refused:
            operation()
        assert machine.state.policy_path in refused.value.message
        assert refused.value.hint == "repair it with 'sudo amd-ctk gpu-tracker reset'"

    assert machine.tracker.reset() is True
    assert set(accessibility(machine).values()) == {"shared"}


def put_directory(path):
    os.mkdir(path)


def put_filled_directory(path):
    os.makedirs(f"{path}/somebodys")


def put_dangling_link(path):
    os.symlink("/nowhere/at/all", path)


def put_link_to_directory(path):
    os.symlink("/", path)


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (put_directory, "it is a directory"),
        (put_filled_directory, "it is a directory"),
        (put_dangling_link, "it is a symbolic link that leads nowhere"),
        (put_link_to_directory, "it is a directory"),
    ],
)
def test_anything_but_a_file_in_place_of_the_policy_refuses_until_reset(machine, put, why):
    os.unlink(machine.state.policy_path)
    put(machine.state.policy_path)

    for operation in (machine.tracker.status, machine.tracker.enable, lambda: machine.create("c1", [0])):
        with pytest.raises(StateError, match=rf"cannot be read: {why} \("):
            operation()

    assert machine.tracker.reset() is True
    assert set(accessibility(machine).values()) == {"shared"}
    machine.create("c1", [0])


@pytest.mark.parametrize("put", [put_directory, put_filled_directory, put_dangling_link])
def test_reset_repairs_every_file_of_the_tracker(machine, put):
    machine.create("c1", [0])
    state = machine.state
    lease = state.lease_path(("/run/runc", "c2"))
    for path in (state.lock_path, state.refusals_path, state.stamp_path, lease):
        if os.path.lexists(path):
            os.unlink(path)
        put(path)

    assert machine.tracker.reset() is True

    assert machine.lease_files() == ["c1@%2Frun%2Frunc.json"]
    machine.tracker.set_accessibility("0", exclusive=True)
    with pytest.raises(GpusRefused):
        machine.create("c2", [0])
    assert [refusal.container_id for refusal in machine.tracker.refusals()] == ["c2"]


def test_a_link_to_a_file_elsewhere_is_written_through(machine):
    elsewhere = machine.directory / "policy.json"
    os.rename(machine.state.policy_path, elsewhere)
    os.symlink(elsewhere, machine.state.policy_path)

    machine.tracker.reset()

    assert os.path.islink(machine.state.policy_path)
    assert elsewhere.read_bytes().startswith(b'{"version":1,"enabled":true,')


@pytest.mark.parametrize("content", [*CORRUPT, b'{"version":1}', b'{"version":1,"creator":{"pid":"1"},"gpus":3}'])
def test_a_lease_that_cannot_be_understood_is_shown_and_reset_repairs_it(machine, content):
    path = machine.state.lease_path(("/run/runc", "c1"))
    with open(path, "wb") as file:
        file.write(content)

    (problem,) = machine.tracker.status().problems
    assert path in problem
    assert "repair it with 'sudo amd-ctk gpu-tracker reset'" in problem

    machine.tracker.reset()
    assert machine.tracker.status().problems == ()


def test_without_a_driver_nothing_is_enabled(machine_of):
    machine = machine_of("no-driver")

    with pytest.raises(DriverUnavailable):
        machine.tracker.enable()

    assert machine.tracker.is_enabled() is False
    assert machine.tracker.reset() is False


def test_the_tracker_is_disabled_without_a_driver(machine):
    shutil.rmtree(machine.host.path("/sys"))

    assert machine.tracker.disable() is True


def test_a_process_reserves_for_its_own_life(machine):
    worker = subprocess.Popen(["sleep", "60"])
    tracker = Tracker(machine.host)
    tracker.set_accessibility("2", exclusive=True)

    assert tracker.reserve("2,0", name="nightly", pid=worker.pid).numbers == (0, 2)

    with pytest.raises(GpusRefused):
        tracker.reserve("2", name="other")
    worker.kill()
    worker.wait()
    assert tracker.reserve("2", name="other").numbers == (2,)
    assert tracker.release("other") == (2,)
    assert tracker.release("other") == ()


def test_a_reservation_while_nothing_is_tracked_is_an_error(untracked):
    with pytest.raises(TrackerDisabled, match="the GPU Tracker is disabled, so no GPU can be reserved"):
        untracked.tracker.reserve("0", name="job")

    untracked.tracker.enable()
    assert untracked.tracker.reserve("0", name="job").numbers == (0,)
    untracked.tracker.disable()
    with pytest.raises(TrackerDisabled):
        untracked.tracker.reserve("0", name="job")


def test_a_reservation_for_nobody_or_of_nothing_is_refused(machine):
    with pytest.raises(ContainerRunning, match="process 999999 does not exist"):
        machine.tracker.reserve("0", name="job", pid=999999)
    with pytest.raises(RequestError, match="GPU 4 does not exist"):
        machine.tracker.reserve("4", name="job")


def test_a_gpu_that_kfd_does_not_list_cannot_be_reserved_for_that_reason(machine_of):
    machine = machine_of(load_profile("rx7900xtx-raphael").with_gpu(1, partitions=0))

    with pytest.raises(RequestError) as refusal:
        machine.tracker.reserve("0000:6d:00.0", name="job")

    assert str(refusal.value) == (
        "the GPU at 0000:6d:00.0 has no number because the kernel's compute driver (KFD) does not list it"
        " ('amd-ctk gpu list' shows the GPUs that containers can have)"
    )


def test_a_name_is_reserved_once(machine):
    other = machine.start_process()
    machine.tracker.reserve("0", name="job", pid=other)

    with pytest.raises(ContainerRunning, match="job already has GPUs"):
        machine.tracker.reserve("1", name="job")


def test_a_living_container_is_not_released(machine):
    machine.create("c1", [0])

    with pytest.raises(ContainerRunning, match="container c1 is still running"):
        machine.tracker.release("c1")

    assert machine.users()[0] == ["c1"]


def test_threads_of_one_process_take_turns(machine):
    tracker = Tracker(machine.host, processes=Processes())
    tracker.set_accessibility("0", exclusive=True)
    winners = []

    def work(name):
        try:
            winners.append(tracker.reserve("0", name=name).numbers)
        except GpusRefused:
            return

    threads = [threading.Thread(target=work, args=(f"job{number}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert winners == [(0,)]


def test_the_leftover_of_an_interrupted_write_is_no_lease(machine):
    leftover = f"{machine.state.leases_directory}/c1.json.77.tmp"
    with open(leftover, "w") as file:
        file.write("{")

    assert machine.tracker.status().problems == ()
    machine.tracker.reset()
    assert not os.path.exists(leftover)


def test_policy_is_readable_for_everybody(machine):
    machine.create("c1", [0])

    for path in (machine.state.policy_path, machine.state.lease_path(("/run/runc", "c1"))):
        assert os.stat(path).st_mode & 0o777 == 0o644
    for path in (
        machine.state.run_directory,
        machine.state.leases_directory,
        os.path.dirname(machine.state.policy_path),
    ):
        assert os.stat(path).st_mode & 0o777 == 0o755


def test_root_sees_the_leases_of_rootless_users(machine):
    machine.as_rootless_user().create("rootless", [3])

    assert machine.users() == {0: [], 1: [], 2: [], 3: ["rootless"]}


def test_a_release_finds_its_container_under_any_root(machine):
    machine.kill(machine.create("c1", [0]))

    machine.poststop("c1")

    assert machine.lease_files() == []


def test_a_poststop_that_comes_late_leaves_the_living_alone(machine):
    machine.create("c1", [0])

    machine.poststop("c1")

    assert machine.users()[0] == ["c1"]


def test_a_release_by_the_container_itself_repairs_its_broken_lease(machine):
    with open(machine.state.lease_path(("/run/runc", "c1")), "w") as file:
        file.write("{}")

    machine.poststop("c1")

    assert machine.lease_files() == []


def test_ids_that_begin_alike_are_different_containers(machine):
    machine.kill(machine.create("c1", [0]))
    machine.kill(machine.create("c10", [0]))

    machine.poststop("c1")

    assert machine.lease_files() == ["c10@%2Frun%2Frunc.json"]


def test_names_too_long_for_a_file_stay_apart(machine):
    first, second = "x" * 300 + "1", "x" * 300 + "2"
    creator = machine.start_process()
    machine.claim(first, [0], creator=creator)
    machine.claim(second, [0], creator=machine.start_process())

    assert machine.users()[0] == [first, second]

    machine.kill(creator)
    machine.poststop(first)
    assert len(machine.lease_files()) == 1
