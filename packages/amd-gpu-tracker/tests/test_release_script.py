"""The script in front of the release hook: it removes what is certainly over, and leaves all else to python."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amd_gpu_tracker
from amd_gpu_tracker.book.history import HOOK, finish
from amd_gpu_tracker.book.history_directory import begin_history
from amd_gpu_tracker.book.lease import Lease, ProcessId, boot_offset
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.history.files import read_history
from amdgpu_discovery.host import Host

SCRIPT = Path(amd_gpu_tracker.__file__).parent / "release.sh"
SHELLS = [shell for shell in ("/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(shell)]
STATE = '{"ociVersion":"1.2.0","id":"c1","status":"stopped","pid":0,"bundle":"/b"}'
# Stands for python and its words: it keeps what it is given, and ends with a code of its own.
ASKED = [sys.executable, "-S", "-c", "import sys; open(sys.argv[1], 'w').write(sys.stdin.read()); sys.exit(7)"]


def _process_that_ended() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


ENDED = ProcessId(pid=_process_that_ended(), start=1)


class Leases:
    """The leases of a host with its lock, and the hook that a runtime runs there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "runc"
        self.root.mkdir()
        self.state = State(Host(str(directory)))
        self.state.prepare()
        Path(self.state.lock_path).touch()

    def write(self, **changes: object) -> str:
        """Write the lease of a container that is over, but for the changes; return its path."""
        fields = {"container_id": "c1", "root": str(self.root), "creator": ENDED, "gpus": ("0000:03:00.0/0",)}
        of_machine = {"boot_id": Processes().boot_id, "namespace": Processes().namespace}
        times = {"since": 1.0, "boot_offset": boot_offset()}
        lease = Lease(**{**fields, **of_machine, **times, "ways": ("env",), **changes})
        self.state.write_lease(lease)
        return self.state.lease_path(lease.key)

    def run(
        self,
        state: str = STATE,
        shell: str = "/bin/sh",
        env: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> tuple[int, str | None]:
        """Run the hook; return its exit code, and the state that it gave to python, None where it asked nobody.

        `wrapper` is a program with its words that starts the hook.
        """
        asked = self.directory / "asked"
        asked.unlink(missing_ok=True)
        words = [
            *wrapper,
            shell,
            *(["sh"] if shell.endswith("busybox") else []),
            str(SCRIPT),
            self.state.leases_directory,
        ]
        environment = {"PATH": "/nowhere", **(env or {})}
        answer = subprocess.run(
            [*words, *ASKED, str(asked)],
            input=state,
            text=True,
            env=environment,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (answer.stdout, answer.stderr) == ("", "")
        return answer.returncode, asked.read_text() if asked.exists() else None


@pytest.fixture
def leases(tmp_path):
    return Leases(tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_lease_of_a_container_that_is_over_is_removed(leases, shell):
    ended = leases.write()
    other = leases.write(container_id="c11")

    assert leases.run(shell=shell) == (0, None)
    assert not os.path.exists(ended)
    assert os.path.exists(other)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_container_without_a_lease_leaves_nothing_to_do(leases, shell):
    other = leases.write(container_id="c2")

    assert leases.run(shell=shell) == (0, None)
    assert os.path.exists(other)


@pytest.mark.parametrize(
    "state",
    [
        '{\n    "ociVersion": "1.0",\n    "id": "c1",\n    "pid": 0\n}\n',
        '{"id":"c1","annotations":{"id":"c2"}}\n',
    ],
)
def test_the_state_may_be_written_in_lines(leases, state):
    ended = leases.write()

    assert leases.run(state) == (0, None)
    assert not os.path.exists(ended)


def test_the_lease_of_a_container_whose_init_was_known_is_removed(leases):
    ended = leases.write(init=ENDED, kinds=("AMD_GPU",), vram_mb=8, is_privileged=True, pid_file="/run/pid")

    assert leases.run() == (0, None)
    assert not os.path.exists(ended)


LIVING = ProcessId(pid=os.getpid(), start=1)
DOUBTS = {
    "its init runs": {"init": LIVING},
    "its creator runs": {"creator": LIVING},
    "it has a cgroup": {"cgroup": "/c1"},
    "it is of another pid namespace": {"namespace": "pid:[1]"},
    "its bundle has a quotation mark": {"bundle": '/b","cgroup":"'},
    "its root is relative": {"root": "runc"},
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("changes", DOUBTS.values(), ids=DOUBTS)
def test_where_there_is_a_doubt_python_gets_the_state_and_says_how_it_ends(leases, shell, changes):
    lease = leases.write(**changes)

    assert leases.run(shell=shell) == (7, STATE)
    assert os.path.exists(lease)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes pid namespaces")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("namespace", ["pid:[4026531836]", Processes().namespace], ids=["the-first", "this-one"])
@pytest.mark.needs("namespaces")
def test_in_another_pid_namespace_a_lease_of_the_host_is_left_to_python(leases, shell, namespace):
    lease = leases.write(namespace=namespace)

    assert leases.run(shell=shell, wrapper=("/usr/bin/unshare", "--fork", "--pid", "--mount-proc")) == (7, STATE)
    assert os.path.exists(lease)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes pid namespaces")
@pytest.mark.needs("namespaces")
def test_in_a_pid_namespace_its_own_lease_is_removed(leases):
    inside = ("/usr/bin/unshare", "--fork", "--pid", "--mount-proc")
    # The namespace is given its number when it is made, so that the lease is written inside.
    write = 'PATH=/usr/bin:/bin && sed -i "s/pid:[^]]*]/$(readlink /proc/self/ns/pid)/" "$0" && exec "$@"'
    ended = leases.write()

    assert leases.run(wrapper=(*inside, "/bin/sh", "-c", write, ended)) == (0, None)
    assert not os.path.exists(ended)


@pytest.mark.skipif(Processes().namespace != "pid:[4026531836]", reason="this is not the pid namespace of the host")
def test_on_the_host_two_programs_are_started_and_the_shell_becomes_the_second(leases, tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    leases.write()
    trace = tmp_path / "trace"

    assert leases.run(wrapper=("/usr/bin/strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace))) == (0, None)
    executed = [line.split('"')[1] for line in trace.read_text().splitlines() if line.endswith("= 0")]
    assert [os.path.basename(program) for program in executed] == ["sh", "flock", "rm"]


def test_a_container_that_its_runtime_knows_is_left_to_python(leases):
    lease = leases.write()
    (leases.root / "c1").mkdir()

    assert leases.run() == (7, STATE)
    assert os.path.exists(lease)


@pytest.mark.parametrize("form", ['{{"pid":{}}}', '{{\n    "pid": {},\n    "bundle": "/b"\n}}\n'])
def test_a_container_of_crun_is_over_if_the_process_in_its_status_is(leases, form):
    (leases.root / "c1").mkdir()
    status = leases.root / "c1" / "status"
    lease = leases.write()

    status.write_text(form.format(os.getpid()))
    assert leases.run() == (7, STATE)
    assert os.path.exists(lease)

    status.write_text(form.format(ENDED.pid))
    assert leases.run() == (0, None)
    assert not os.path.exists(lease)


@pytest.mark.parametrize("status", ["", "{}", '{"pid":"5"}', '{"pid":-1}'])
def test_a_status_that_crun_does_not_write_is_left_to_python(leases, status):
    (leases.root / "c1").mkdir()
    (leases.root / "c1" / "status").write_text(status)
    lease = leases.write()

    assert leases.run() == (7, STATE)
    assert os.path.exists(lease)


def test_a_container_that_runtimes_without_a_root_know_is_left_to_python(leases):
    lease = leases.write(root="")
    users = leases.directory / "user"
    (users / "crun" / "c1").mkdir(parents=True)

    assert leases.run(env={"XDG_RUNTIME_DIR": str(users)}) == (7, STATE)
    assert os.path.exists(lease)


def test_one_id_under_two_roots_is_left_to_python(leases):
    written = [leases.write(), leases.write(root="/run/other")]

    assert leases.run() == (7, STATE)
    assert all(map(os.path.exists, written))


@pytest.mark.parametrize("container_id", ["", "a b", "a/b", "a@b", "*", "ü", "a" * 101, "-n;rm"])
def test_an_id_that_is_not_its_own_file_name_is_left_to_python(leases, container_id):
    lease = leases.write()
    state = json.dumps({"id": container_id})

    assert leases.run(state) == (7, state)
    assert os.path.exists(lease)


@pytest.mark.parametrize("state", ["", "{}", "[]", "null", '{"id":5,"c1":"c1"}', "\n"])
def test_state_that_no_runtime_writes_is_left_to_python(leases, state):
    assert leases.run(state) == (7, state.strip("\n"))


@pytest.mark.parametrize(
    "content", ["", "{}", '{"version":2,"container_id":"c1"}', '{"version":1,"container_id":"c2"}']
)
def test_a_lease_of_another_form_is_left_to_python(leases, content):
    path = Path(leases.write())
    path.write_text(content)

    assert leases.run() == (7, STATE)
    assert path.read_text() == content


def test_while_somebody_holds_the_lock_python_waits_for_it_instead(leases):
    lease = leases.write()
    with open(leases.state.lock_path, "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert leases.run() == (7, STATE)
    assert os.path.exists(lease)


def test_the_lock_is_free_again_for_python_and_afterwards(leases):
    leases.write(cgroup="/c1")
    take = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'rb+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    words = ["/bin/sh", str(SCRIPT), leases.state.leases_directory, sys.executable, "-c", take, leases.state.lock_path]

    assert subprocess.run(words, input=STATE, text=True, timeout=60, check=False).returncode == 0


def test_without_a_lock_there_is_nothing_to_be_sure_of(leases):
    lease = leases.write()
    os.unlink(leases.state.lock_path)

    assert leases.run() == (7, STATE)
    assert os.path.exists(lease)
    assert not os.path.exists(leases.state.lock_path)


def test_without_flock_python_does_it(leases, tmp_path):
    text = SCRIPT.read_text().replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PATH=/nowhere")
    (tmp_path / "release.sh").write_text(text)
    lease = leases.write()
    words = ["/bin/sh", str(tmp_path / "release.sh"), leases.state.leases_directory, "/bin/false"]

    answer = subprocess.run(words, input=STATE, text=True, capture_output=True, check=False)

    assert (answer.returncode, answer.stderr) == (1, "")
    assert os.path.exists(lease)


def test_exported_functions_do_not_stand_in_for_builtins(leases):
    ended = leases.write()
    functions = {f"BASH_FUNC_{name}%%": "() { return 0; }" for name in ("test", "read", "printf", "exec")}

    assert leases.run(shell=shutil.which("bash") or "/bin/sh", env=functions) == (0, None)
    assert not os.path.exists(ended)


PROCESSES = st.sampled_from([ENDED, ProcessId(pid=os.getpid(), start=Processes().myself().start), LIVING])


@settings(max_examples=60, deadline=None)
@given(
    creator=PROCESSES,
    init=st.none() | PROCESSES,
    cgroup=st.sampled_from(["", "/no-such-cgroup"]),
    namespace=st.sampled_from([Processes().namespace, "pid:[1]"]),
    bundle=st.sampled_from(["", "/b", '/"', "\\", '/b","init":null,"cgroup":"",']),
    is_known=st.booleans(),
)
def test_whatever_it_removes_python_would_have_removed(tmp_path_factory, is_known, **changes):
    leases = Leases(tmp_path_factory.mktemp("leases"))
    if is_known:
        (leases.root / "c1").mkdir()
    path = leases.write(**changes)
    asked = leases.run()[1] is not None
    assert os.path.exists(path) == asked

    again = leases.write(**changes)
    release(Book(leases.state, Processes(), LibraryLock), "c1")

    assert asked or not os.path.exists(again)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_history_gets_the_line_of_a_container_that_is_over(leases, shell):
    begin_history(leases.state)
    ended = leases.write(since=time.time(), gpus=("0000:03:00.0/0", "0000:26:00.0/0"))

    assert leases.run(shell=shell) == (0, None)

    assert not os.path.exists(ended)
    assert os.listdir(f"{leases.state.history_directory}/open") == []
    (used,) = read_history(leases.state, since=0, until=time.time() + 60)
    assert (used.container_id, used.how, len(used.gpus)) == ("c1", "hook", 2)
    assert 0 <= used.seconds < 600


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_ends_a_line_of_the_history_as_python_does(leases, shell):
    begin_history(leases.state)
    since = time.time()
    month = Path(leases.state.history_directory, time.strftime("%Y-%m.jsonl", time.gmtime(since)))
    leases.write(since=since)
    assert leases.run(shell=shell) == (0, None)
    of_script = month.read_text()
    month.unlink()

    path = leases.write(since=since)
    finish(leases.state.history_directory, path, HOOK, end=json.loads(of_script)["end"])

    assert month.read_text() == of_script


@pytest.mark.parametrize("shell", SHELLS)
def test_a_history_that_cannot_be_written_is_left_to_python(leases, shell):
    begin_history(leases.state)
    leases.write(since=time.time())
    os.mkdir(f"{leases.state.history_directory}/{time.strftime('%Y-%m', time.gmtime())}.jsonl")

    code, asked = leases.run(shell=shell)

    assert (code, asked) == (7, STATE)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("begun", ["", "2026-11\n", "../../x\n{}\n", "2026-11"])
def test_a_history_that_was_cut_off_keeps_no_lease(leases, shell, begun):
    begin_history(leases.state)
    ended = leases.write()
    path = f"{leases.state.history_directory}/open/{os.path.basename(ended).removesuffix('.json')}"
    Path(path).write_text(begun)

    assert leases.run(shell=shell) == (0, None)

    assert not os.path.exists(ended)
    assert not os.path.exists(path)


def write_docker_container(directory, policy, identifier="c1"):
    """Write what dockerd and containerd keep of a container; return its bundle."""
    engine = directory / "docker/containers" / identifier
    engine.mkdir(parents=True)
    (engine / "hostconfig.json").write_text(
        f'{{"Binds":null,"RestartPolicy":{{"Name":"{policy}","MaximumRetryCount":0}}}}'
    )
    bundle = directory / "moby" / identifier
    bundle.mkdir(parents=True)
    mounts = [{"source": "proc"}, {"source": f"{engine}/hosts"}]
    (bundle / "config.json").write_text(json.dumps({"mounts": mounts}, separators=(",", ":")))
    return str(bundle)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("policy", "asked"),
    [("always", STATE), ("unless-stopped", STATE), ("on-failure", STATE), ("no", None), ("", None)],
)
def test_python_is_asked_about_a_container_that_docker_starts_again(leases, shell, policy, asked):
    lease = leases.write(bundle=write_docker_container(leases.directory, policy))

    assert leases.run(shell=shell)[1] == asked
    assert os.path.exists(lease) is bool(asked)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"annotations": {"io.podman.annotations.autoremove": "FALSE"}}, STATE),
        ({"annotations": {"org.systemd.property.KillSignal": "15"}}, STATE),
        ({"annotations": {"io.podman.annotations.autoremove": "TRUE"}}, None),
        ({"linux": {"cgroupsPath": "/system.slice/web.service/libpod-payload-c1"}}, STATE),
    ],
)
def test_python_is_asked_about_a_container_that_podman_may_start_again(leases, shell, spec, asked):
    bundle = leases.directory / "overlay-containers/c1/userdata"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(spec, separators=(",", ":")))
    leases.write(bundle=str(bundle))

    assert leases.run(shell=shell)[1] == asked


@pytest.mark.parametrize("bundle", ["moby/c1", "overlay-containers/c1/userdata"])
def test_a_bundle_that_is_gone_keeps_nothing(leases, bundle):
    lease = leases.write(bundle=str(leases.directory / bundle))

    assert leases.run() == (0, None)
    assert not os.path.exists(lease)
