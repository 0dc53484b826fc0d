"""What a user without privileges can do to root's tracker: one test for each hostile thing, with a real second user.

The host is simulated; user, processes, namespaces and files are real. The attacker writes into a runtime directory as
logind makes one, and root then does what an administrator does: `status` in all its forms, and `exclusive`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amd_gpu_tracker.book.user_files import MOST_LEASES, MOST_USER_BYTES
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.watch.show.screen import print_status
from amdgpu_simulator import build_host

# Of no account on any machine.
ATTACKER = 60123
FIRST_SUBORDINATE = 1_000_000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be attacked by a second user; run as root")

# Modules come first: the directories of root are closed to the attacker. The attack follows, in the directory of the
# attacker's leases; then the process stays, to prove leases.
BECOME_ATTACKER = """
import ctypes, json, os, signal, socket, sys
from amd_gpu_tracker.leases.processes import Processes
uid = int(sys.argv[1])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
os.makedirs("amd-container-toolkit/leases")
os.chdir("amd-container-toolkit/leases")
processes = Processes()
me = processes.myself()

def lease(container_id="attack", **changes):
    fields = {
        "container_id": container_id, "root": "", "bundle": "", "creator": me.as_dict(), "init": None, "pid_file": "",
        "cgroup": "", "gpus": ["0000:26:00.0/0"], "ways": ["env"], "since": 1.0, "boot_offset": 0.0,
        "boot_id": processes.boot_id, "namespace": processes.namespace, "kinds": [], "vram_mb": 0,
    }
    return json.dumps({"version": 1, **fields, **changes})

def write(name, content):
    with open(name, "w") as file:
        file.write(content)

gone = {"pid": 4194304, "start": 1}
"""
STAY = """
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tracker(tmp_path):
    """Return root's tracker of four MI210, enabled."""
    made = Tracker(build_host(tmp_path / "host", "mi210-4", bare=True), lock_timeout=2)
    made.enable()
    return made


@pytest.fixture
def runtime_directory(tracker, tmp_path):
    """Return the attacker's runtime directory, as logind makes it."""
    path = tmp_path / "host" / "run" / "user" / str(ATTACKER)
    path.mkdir(parents=True)
    os.chown(path, ATTACKER, ATTACKER)
    path.chmod(0o700)
    return path


@pytest.fixture
def leases(runtime_directory):
    return runtime_directory / "amd-container-toolkit" / "leases"


@pytest.fixture
def attack(runtime_directory):
    """Return a function that runs an attack as the attacker; the process lives until the test ends."""
    started = []

    def run(code):
        program = BECOME_ATTACKER + code + STAY
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(ATTACKER)],
            cwd=runtime_directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "done\n"
        return process

    yield run
    for process in started:
        process.communicate()


@pytest.fixture
def look(tracker, capsys):
    """Return a function that shows status as an administrator does: who uses GPU 1, and what is said about leases."""

    def show():
        print_status(tracker.status, as_json=True, wide=False, no_trunc=False)
        print_status(tracker.status, as_json=False, wide=False, no_trunc=False)
        capsys.readouterr()
        print_status(tracker.status, as_json=False, wide=True, no_trunc=False)
        shown = capsys.readouterr()
        assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())
        used = tracker.status().gpus[1].containers
        return [(use.container_id, use.user) for use in used], shown.err.splitlines()

    return show


def becomes_exclusive(tracker, number=1):
    return tracker.set_accessibility(str(number), exclusive=True).changed == (number,)


def test_a_lease_of_a_running_process_of_the_user_counts(tracker, attack, look):
    attack("write('a.json', lease())")

    assert look() == ([("attack", ATTACKER)], [])
    assert tracker.set_accessibility("0-1", exclusive=True).rootless == (1,)


@pytest.mark.needs("namespaces")
def test_a_process_in_a_user_namespace_of_the_user_is_the_users_whatever_its_uid(tracker, attack, look, leases):
    """As a rootless container with `--user 5` runs; newuidmap, which writes its map, is root as well."""
    attack("""
os.mkfifo("mapped")
os.mkfifo("changed")
# The child is somebody else by then.
os.chmod("changed", 0o666)
inside, outside = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(600)
    libc = ctypes.CDLL(None)
    PR_SET_DUMPABLE, CLONE_NEWUSER = 4, 0x10000000
    assert libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 and libc.unshare(CLONE_NEWUSER) == 0
    os.write(outside, b"x")
    open("mapped").read()
    os.setuid(5)
    write("changed", "x")
    signal.pause()
os.read(inside, 1)
write("a.json", lease(init=processes.find(child).as_dict(), creator=gone))
write("child", str(child))
""")
    child = int((leases / "child").read_text())
    try:
        Path(f"/proc/{child}/uid_map").write_text(f"0 {ATTACKER} 1\n1 {FIRST_SUBORDINATE} 10\n")
        (leases / "mapped").write_text("x")
        assert (leases / "changed").read_text() == "x"

        assert f"Uid:\t{FIRST_SUBORDINATE + 4}\t" in Path(f"/proc/{child}/status").read_text()
        assert look() == ([("attack", ATTACKER)], [])
        assert tracker.set_accessibility("1", exclusive=True).rootless == (1,)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_of_root_proves_nothing(tracker, attack, look):
    attack(f"write('a.json', lease(creator=gone, init=processes.find({os.getpid()}).as_dict()))")

    assert look() == ([], [])
    assert becomes_exclusive(tracker)


def test_a_cgroup_that_leads_elsewhere_is_not_walked(tracker, attack, look, monkeypatch):
    monkeypatch.setattr(os, "walk", lambda *_: pytest.fail("root walks where a user says"))
    attack("write('a.json', lease(creator=gone, cgroup='/../../../usr'))")

    assert look() == ([], [])
    assert becomes_exclusive(tracker)


def test_a_made_up_pid_namespace_keeps_nothing_shared(tracker, attack, look):
    attack("write('a.json', lease(namespace='pid:[1]'))")

    assert look() == ([], [])
    assert becomes_exclusive(tracker)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("creator={'pid': int('9' * 4200), 'start': 1}", "a process id is not one of the kernel's"),
        ("pid_file='/tmp/' + chr(0)", "pid_file has a null byte"),
        (
            "container_id=chr(0xd800)",
            "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        ),
        ("gpus=5", "gpus is a list, not 5"),
        ("since=None", "since is a number, not None"),
        ("creator=5", "ProcessId is an object, not 5"),
    ],
)
def test_a_lease_that_means_nothing_is_a_line(tracker, attack, look, leases, changes, reason):
    attack(f"write('a.json', lease(**dict({changes})))")

    used, (line,) = look()

    assert used == []
    assert line.startswith(f"the lease {leases}/a.json of user {ATTACKER} cannot be understood: ")
    assert line.endswith(reason)
    with pytest.raises(StateError) as refused:
        tracker.set_accessibility("1", exclusive=True)
    assert str(refused.value) == (
        f"{line} (ask the user to remove it, or run 'sudo amd-ctk gpu-tracker ignore {ATTACKER}')"
    )
    tracker.settings.ignore_user(ATTACKER)
    assert becomes_exclusive(tracker)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.symlink('/etc/shadow', 'a.json')", "it is a symbolic link"),
        ("os.symlink('/dev/zero', 'a.json')", "it is a symbolic link"),
        ("os.mkfifo('a.json')", "it is not a plain file"),
        ("os.mkdir('a.json')", "it is a directory"),
        ("write('a.json', ''); os.truncate('a.json', 1 << 40)", "it is too large"),
        ("socket.socket(socket.AF_UNIX).bind('a.json')", "it is not a plain file"),
    ],
)
def test_a_lease_that_is_no_plain_file_is_one_line(attack, look, leases, bytes_read, code, reason):
    attack(code)
    bytes_read.clear()

    assert look() == ([], [f"the lease {leases}/a.json of user {ATTACKER} cannot be read: {reason}"])
    assert sum(bytes_read) < MOST_USER_BYTES


def test_a_file_of_somebody_else_is_not_read(attack, look, leases):
    attack("")
    (leases / "a.json").write_text("of root")

    assert look() == ([], [f"the lease {leases}/a.json of user {ATTACKER} cannot be read: it belongs to another user"])


def test_a_pid_file_of_somebody_else_is_not_read(tracker, attack, look, leases, tmp_path):
    (tmp_path / "pid").write_text(str(os.getpid()))
    attack(f"write('a.json', lease(creator=gone, pid_file='{tmp_path}/pid'))")

    assert look() == (
        [],
        [f"the lease {leases}/a.json of user {ATTACKER} cannot be judged: it belongs to another user"],
    )
    assert becomes_exclusive(tracker, 0)


def test_sixty_links_of_one_large_file_cost_next_to_nothing(attack, look, bytes_read):
    attack("""
write("a.json", "[" + "1," * 450_000 + "1]")
for number in range(60):
    os.link("a.json", f"{number}.json")
""")
    bytes_read.clear()

    used, lines = look()

    assert (used, len(lines)) == ([], 11)
    # Four times, as `look` looks four times.
    assert sum(bytes_read) < MOST_USER_BYTES


def test_a_huge_directory_is_read_as_far_as_the_limit(attack, look, leases):
    attack(f"for number in range({3 * MOST_LEASES}): write(f'{{number}}.tmp', '')")

    assert look() == (
        [],
        [f"the leases of user {ATTACKER} in {leases} cannot be read: it has more than {MOST_LEASES} leases"],
    )


@pytest.mark.parametrize("target", ["/root", "/proc/self/fd", "."])
def test_a_directory_that_is_a_link_is_not_followed(attack, look, leases, target):
    attack(f"os.chdir('..'); os.rmdir('leases'); os.symlink({target!r}, 'leases')")

    assert look() == (
        [],
        [f"the leases of user {ATTACKER} in {leases} cannot be read: a part of its path is not a directory"],
    )


def test_a_directory_that_changes_while_it_is_read_leads_nowhere(tracker, attack, leases):
    process = attack("""
os.chdir("..")
os.mkdir("other")
write("other/a.json", lease())
os.symlink("/etc", "link")
if os.fork() == 0:
    signal.alarm(600)
    os.close(0)
    os.close(1)
    parent = os.getppid()
    while os.getppid() == parent:
        for name in ("other", "link"):
            os.rename("leases", "aside")
            os.rename(name, "leases")
            os.rename("leases", name)
            os.rename("aside", "leases")
    os._exit(0)
""")

    for _ in range(50):
        status = tracker.status()

        assert status.gpus[1].containers == () or status.gpus[1].containers[0].user == ATTACKER
        assert len(status.problems) <= 1
    assert process.poll() is None


def test_containers_json_that_holds_a_number_names_nothing(attack, look, runtime_directory):
    attack("""
os.makedirs("storage/c/userdata")
write("storage/containers.json", "5")
write("storage/c/userdata/config.json", '{"mounts": 5, "annotations": [5]}')
write("a.json", lease(bundle=os.getcwd() + "/storage/c/userdata"))
""")

    assert look() == ([("attack", ATTACKER)], [])


def test_escape_sequences_of_a_lease_do_not_reach_the_terminal(attack, look):
    attack(r"""
write("\x1b[2J.json", "{")
write("b.json", lease("\x1b]0;owned\x07", ways=["\x1b[31m"]))
""")

    used, lines = look()

    assert used == [("\x1b]0;owned\x07", ATTACKER)]
    assert len(lines) == 1
