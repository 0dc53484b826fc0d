"""What root believes of the leases of users, on a simulated host on which the caller is that user."""

from __future__ import annotations

import json
import os
import posix
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.user_files import LARGEST_LEASE, MOST_LEASES, MOST_USER_BYTES, UserFiles, find_users
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.user_leases import MOST_REPORTED_LEASES, MOST_USER_GPUS, read_user_leases
from amdgpu_discovery.host import Host

USER = os.geteuid()
OTHER_USER = USER + 1


@pytest.fixture
def user(machine):
    """Return the machine as a rootless user has it, with a container on GPU 1."""
    made = machine.as_rootless_user()
    made.init = made.create("rootless", [1])
    made.path = Path(made.state.lease_path(("/run/runc", "rootless")))
    made.lease = json.loads(made.path.read_bytes())
    return made


@pytest.fixture
def rewrite(user):
    """Return a function that changes fields of the user's lease, as the user can."""

    def change(**fields):
        user.path.write_text(json.dumps({**user.lease, **fields}))

    return change


@pytest.fixture
def read(machine):
    """Return a function that gives who uses which GPU as root sees it, and what is wrong with leases."""

    def look():
        users = read_user_leases(machine.state, machine.processes)
        return [(use.uid, use.lease.container_id, use.lease.gpus) for use in users.proved], users.problems

    return look


def test_a_lease_that_a_process_of_the_user_proves_counts(user, read):
    assert read() == ([(USER, "rootless", ("0000:26:00.0/0",))], ())


def test_status_says_whose_container_it_is(machine, user):
    machine.create("roots", [1])

    uses = [use for gpu in machine.tracker.status().gpus for use in gpu.containers]

    assert [(use.container_id, use.user) for use in uses] == [("rootless", USER), ("roots", None)]


@pytest.mark.parametrize("user_says", [{"person": OTHER_USER}, {"person": None}])
def test_a_user_cannot_pose_as_another_in_roots_lists(machine, user, rewrite, user_says):
    machine.tracker.reserve("0", name=f"{OTHER_USER}/train", pid=machine.start_process())
    rewrite(container_id=f"{OTHER_USER}/train", ways=["api"], root="", **user_says)

    uses = [use for gpu in machine.tracker.status().gpus for use in gpu.containers]
    jobs = machine.tracker.jobs()

    assert [(use.user, use.person if use.user is not None else "root's", use.job) for use in uses] == [
        (None, "root's", "train"),
        (USER, USER, None),
    ]
    assert [(job.name, job.gpus) for job in jobs] == [(f"{OTHER_USER}/train", (1,)), ("train", (0,))]


def test_a_container_of_a_user_is_in_no_job_of_another(machine, user, rewrite):
    machine.tracker.reserve("0", name=f"{OTHER_USER}/train", pid=machine.start_process())
    path = machine.state.lease_path(("", f"{OTHER_USER}/train"))
    train = machine.state.read_lease(path).replace(person=OTHER_USER)
    machine.state.write_lease(train)
    rewrite(reservation=train.container_id, reservation_digest=train.token_digest, person=OTHER_USER)

    found = {(job.name, job.person, job.gpus, job.containers) for job in machine.tracker.jobs()}

    assert found == {("train", OTHER_USER, (0,), ()), ("rootless", USER, (1,), ("rootless",))}


def test_a_container_of_a_user_is_in_the_job_that_roots_service_gave_this_user(machine, user, rewrite):
    machine.tracker.reserve("1", name=f"{USER}/train", pid=machine.start_process())
    train = machine.state.read_lease(machine.state.lease_path(("", f"{USER}/train"))).replace(person=USER)
    machine.state.write_lease(train)
    rewrite(reservation=train.container_id, reservation_digest=train.token_digest, person=USER)

    (job,) = machine.tracker.jobs()

    assert (job.name, job.person, job.gpus, job.containers) == ("train", USER, (1,), ("rootless",))


def test_a_process_of_somebody_else_proves_nothing(machine, user, rewrite, read):
    process = machine.processes.find(machine.start_process(uid=OTHER_USER))
    rewrite(init=process.as_dict(), creator=process.as_dict(), pid_file="")

    assert read() == ([], ())


def test_a_pid_file_that_names_a_process_of_somebody_else_proves_nothing(machine, user, read):
    (machine.directory / "rootless.pid").write_text(str(machine.start_process(uid=OTHER_USER, seconds_ago=60)))

    assert read() == ([], ())


def test_without_a_pid_file_the_runtimes_state_in_the_users_directory_proves_life(machine, user, rewrite, read):
    state = user.path.parents[2] / "crun" / "rootless" / "status"
    state.parent.mkdir(parents=True)
    init = machine.processes.find(user.init)
    state.write_text(json.dumps({"pid": init.pid, "process-start-time": init.start}))
    rewrite(root="", pid_file="")

    assert read()[0] == [(USER, "rootless", ("0000:26:00.0/0",))]

    machine.kill(user.init)
    assert read() == ([], ())


@pytest.mark.parametrize("cgroup", ["user.slice:libpod:c1", "/libpod_parent/libpod-c1.scope", "c1"])
def test_a_container_in_the_pid_namespace_of_the_host_lives_with_a_process_of_the_user_in_its_cgroup(
    machine, user, rewrite, read, cgroup
):
    machine.kill(user.init)
    rewrite(cgroup=cgroup)
    assert read() == ([], ())

    process = user.start_process()
    below = "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-c1.scope/container\n"
    (machine.proc / str(process) / "cgroup").write_text(below)

    assert read()[0] == [(USER, "rootless", ("0000:26:00.0/0",))]

    machine.start_process(process, uid=OTHER_USER)
    assert read() == ([], ())


@pytest.mark.parametrize("cgroup", ["/../../../usr", "/", "..", "/..", ".", ":", "::", "a-" * 5000 + ".slice:b:c"])
def test_a_cgroup_is_compared_and_never_walked(machine, user, rewrite, read, monkeypatch, cgroup):
    monkeypatch.setattr(os, "walk", lambda *_: pytest.fail("root walks a tree that a user named"))
    machine.kill(user.init)
    rewrite(cgroup=cgroup)

    assert read() == ([], ())
    assert machine.tracker.set_accessibility("1", exclusive=True).changed == (1,)


def test_a_made_up_namespace_keeps_no_gpu_from_being_exclusive(machine, user, rewrite, read):
    rewrite(namespace="pid:[1]")

    assert read() == ([], ())
    assert machine.tracker.set_accessibility("1", exclusive=True).changed == (1,)


def test_a_namespace_in_which_the_user_has_a_process_is_a_fault_about_the_gpus_of_the_lease(
    machine, user, rewrite, read
):
    process = user.start_process()
    (machine.proc / str(process) / "ns").mkdir()
    (machine.proc / str(process) / "ns" / "pid").symlink_to("pid:[4026532000]")
    rewrite(namespace="pid:[4026532000]")
    problem = (
        f"the lease {user.path} of user {USER} cannot be judged: its process ids are those of another pid namespace"
    )

    assert read() == ([], (problem,))
    assert machine.tracker.set_accessibility("0,2-3", exclusive=True).changed == (0, 2, 3)
    with pytest.raises(StateError) as refused:
        machine.tracker.set_accessibility("0-1", exclusive=True)

    assert str(refused.value) == (
        f"{problem} (ask the user to remove it, or run 'sudo amd-ctk gpu-tracker ignore {USER}')"
    )


# Since Python 3.14, the size of the stack is the limit, and brackets of this size do not reach it.
FILLS_THE_STACK = sys.version_info < (3, 14)
DEEP = "it is nested too deeply" if FILLS_THE_STACK else "Expecting value: line 1 column 16385 (char 16384)"
BROKEN = [
    (b"", "Expecting value: line 1 column 1 (char 0)"),
    (b"5", "'int' object has no attribute 'pop'"),
    (b"[" * LARGEST_LEASE, DEEP),
    (b'{"version":0}', "it is not version 1"),
    (b'{"version":2}', "it is version 2, of a later toolkit"),
    (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
]


@pytest.mark.parametrize(("content", "reason"), BROKEN)
def test_a_lease_that_cannot_be_understood_is_one_line_and_a_fault_about_every_gpu(
    machine, user, read, content, reason
):
    user.path.write_bytes(content)

    used, (problem,) = read()

    assert used == []
    assert problem.startswith(f"the lease {user.path} of user {USER} cannot be understood: {reason}")
    with pytest.raises(StateError):
        machine.tracker.set_accessibility("3", exclusive=True)
    assert machine.tracker.set_accessibility("3", exclusive=False).changed == (3,)


LONG_PID = int("9" * 4200)
WRONG_FIELDS = [
    ({"creator": {"pid": LONG_PID, "start": 1}}, "a process id is not one of the kernel's"),
    ({"init": {"pid": 0, "start": 1}}, "a process id is not one of the kernel's"),
    ({"init": {"pid": 1, "start": -1}}, "a process id is not one of the kernel's"),
    ({"init": {"pid": True, "start": 1}}, "pid is a number, not True"),
    ({"pid_file": "/tmp/\0"}, "pid_file has a null byte"),
    ({"container_id": "a\0b"}, "container_id has a null byte"),
    ({"bundle": "\ud800"}, "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed"),
    ({"gpus": "0000:03:00.0/0"}, "gpus is a list, not '0000:03:00.0/0'"),
    ({"gpus": ["0000:03:00.0/0"] * (MOST_USER_GPUS + 1)}, "it names more than 256 GPUs"),
    ({"container_id": "c" * 1025}, "its container id is longer than 1024 characters"),
    ({"since": 1e308 * 10}, "Infinity is not JSON"),
    ({"\x1b[2J": 1, "bundle": 3}, "bundle is text, not 3"),
]


@pytest.mark.parametrize(("fields", "reason"), WRONG_FIELDS)
def test_a_field_that_is_not_what_it_must_be_is_one_line(machine, user, rewrite, read, fields, reason):
    rewrite(**fields)

    used, (problem,) = read()

    assert used == []
    assert problem.startswith(f"the lease {user.path} of user {USER} cannot be understood: {reason}")
    assert problem.isprintable()
    assert len(problem) <= 503


def test_many_broken_leases_are_a_few_lines(user, read):
    for number in range(100):
        (user.path.parent / f"{number}.json").write_bytes(b"{")

    _, problems = read()

    assert len(problems) == MOST_REPORTED_LEASES + 1
    assert problems[-1] == f"90 more leases of user {USER} are like these"


def test_sixty_links_of_one_large_file_are_not_read(user, read, bytes_read):
    large = user.path.parent / "large.json"
    large.write_bytes(b"[" + b"1," * 450_000 + b"1]")
    for number in range(60):
        os.link(large, user.path.parent / f"{number}.json")
    bytes_read.clear()

    _, problems = read()

    assert problems[0].endswith(".json of user 0 cannot be read: it is too large".replace(" 0 ", f" {USER} "))
    assert sum(bytes_read) < LARGEST_LEASE * 8


def test_of_one_user_root_reads_so_much_and_no_more(user, read, bytes_read):
    content = user.path.read_bytes()
    padded = content[:-2] + b" " * (LARGEST_LEASE - len(content)) + b"}\n"
    for number in range(MOST_LEASES - 1):
        (user.path.parent / f"{number}.json").write_bytes(padded)
    bytes_read.clear()

    used, problems = read()

    assert problems == (
        f"the leases of user {USER} in {user.path.parent} cannot be read: one user has more than root reads",
    )
    assert len(used) >= MOST_USER_BYTES // LARGEST_LEASE - 1
    # What proves them is read too: a few small files in /proc for each.
    assert sum(bytes_read) < 2 * MOST_USER_BYTES


def test_files_that_grow_while_they_are_read_count_as_read(user, monkeypatch):
    def read(descriptor, most):
        asked.append(most)
        return b"x" * most

    asked = []
    (user.path.parent / "pid").write_bytes(b"x")
    files = UserFiles(USER)
    monkeypatch.setattr(posix, "read", read)

    for _ in range(100):
        with pytest.raises(OSError, match="it is too large"):
            files.read(str(user.path.parent / "pid"), 1024 * 1024)

    assert sum(asked) <= MOST_USER_BYTES + 100


def test_of_a_huge_directory_root_reads_so_many_names_and_no_more(user, read, monkeypatch):
    for number in range(MOST_LEASES + 500):
        (user.path.parent / f"{number}.json").symlink_to("nothing")
    looked_at = []
    monkeypatch.setattr(posix, "open", counted(posix.open, looked_at))

    _, problems = read()

    assert problems[0] == (
        f"the leases of user {USER} in {user.path.parent} cannot be read: it has more than {MOST_LEASES} leases"
    )
    assert len([path for path, *_ in looked_at if path.endswith(".json")]) == MOST_LEASES


def counted(function, calls):
    def call(*arguments, **options):
        calls.append(arguments)
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize("part", ["leases", "amd-container-toolkit"])
@pytest.mark.parametrize("kind", ["link", "file", "pipe"])
def test_a_directory_that_is_none_is_one_line(machine, user, read, part, kind):
    path = user.path.parent if part == "leases" else user.path.parents[1]
    path.rename(path.with_name("moved"))
    if kind == "link":
        path.symlink_to("moved")
    elif kind == "file":
        path.write_bytes(b"")
    else:
        os.mkfifo(path)

    used, (problem,) = read()

    assert used == []
    assert problem == (
        f"the leases of user {USER} in {user.path.parent} cannot be read: a part of its path is not a directory"
    )


def test_a_user_without_leases_is_not_reported(machine, read):
    Path(machine.host.path("/run/user/1000")).mkdir(parents=True)

    assert read() == ([], ())


def test_the_leases_of_an_ignored_user_are_not_read(machine, user, read):
    user.path.write_bytes(b"{")

    assert machine.tracker.settings.ignore_user(USER) is True
    assert machine.tracker.settings.ignore_user(USER) is False

    assert read() == ([], (f"the leases of user {USER} are ignored",))
    assert machine.tracker.settings.ignored_users() == (USER,)
    assert machine.tracker.set_accessibility("1", exclusive=True).changed == (1,)

    assert machine.tracker.settings.ignore_user(USER, ignored=False) is True
    assert machine.tracker.settings.ignore_user(USER, ignored=False) is False
    assert len(read()[1]) == 1


def test_that_a_user_is_ignored_outlives_reset_and_reboot(machine, user):
    machine.tracker.settings.ignore_user(1000)
    machine.tracker.settings.ignore_user(999)

    machine.tracker.reset()
    machine.tracker.disable()
    machine.boot()
    machine.tracker.enable()

    assert machine.tracker.settings.ignored_users() == (999, 1000)


@pytest.mark.parametrize("content", [b"alice\n", b"-1\n", b"9" * 4300, b"\xb2\n", b"1" * 2_000_000])
def test_a_list_of_ignored_users_that_cannot_be_read_ignores_nobody(machine, user, content):
    Path(machine.host.path("/var/lib/amd-container-toolkit/gpu-tracker-ignored-users")).write_bytes(content)

    with pytest.raises(StateError, match="ignored-users cannot be"):
        machine.tracker.set_accessibility("1", exclusive=True)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def test_anything_that_a_user_writes_is_a_lease_a_line_or_nothing(machine, user):
    @settings(max_examples=150)
    @given(data=st.data())
    def check(data):
        changed = data.draw(st.dictionaries(st.sampled_from(sorted(user.lease)), ANYTHING, max_size=3))
        content = json.dumps({**user.lease, **changed}).encode()
        cut = data.draw(st.integers(0, len(content)))
        user.path.write_bytes(data.draw(st.sampled_from([content, content[:cut], content[cut:]])))

        status = machine.tracker.status()

        assert len(status.problems) <= 1
        assert all(str(user.path) in problem for problem in status.problems)

    check()


def test_whatever_a_user_writes_in_place_of_what_proves_a_lease_is_a_line_or_nothing(machine, user, rewrite, read):
    rewrite(root="", pid_file="")
    state = user.path.parents[2] / "runc" / "rootless" / "state.json"
    state.parent.mkdir(parents=True)
    fields = {"init_process_pid": user.init, "init_process_start": machine.processes.find(user.init).start}

    @settings(max_examples=150)
    @given(
        content=st.binary(max_size=99)
        | st.dictionaries(st.sampled_from(sorted(fields)), ANYTHING).map(lambda d: json.dumps({**fields, **d}).encode())
    )
    def check(content):
        state.write_bytes(content)

        assert read() in (([], ()), ([(USER, "rootless", ("0000:26:00.0/0",))], ()))

    check()


@pytest.mark.skipif(USER != 0, reason="only root can become another user")
def test_to_a_user_the_directories_of_others_are_none():
    with tempfile.TemporaryDirectory() as top:
        for number in (60124, 60125):
            directory = Path(top, f"run/user/{number}")
            directory.mkdir(parents=True)
            os.chown(directory, number, number)
            directory.chmod(0o700)
        Path(top).chmod(0o755)
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.setresuid(*[60124] * 3)
                os.write(writer, "".join(each.directory for each in find_users(Host(top))).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

        assert os.read(reader, 1000).decode() == f"{top}/run/user/60124"
