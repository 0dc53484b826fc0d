"""From outside, the stand-in behaves like runc."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.stand_in_runc import install

SAY = """#!/bin/sh
{ echo "$1 $(/bin/pwd)"; /bin/cat; echo; } >> "$2"
exit "$3"
"""


class Runc:
    def __init__(self, directory):
        self.directory = directory
        self.bundle = directory / "bundle"
        self.records = directory / "calls.jsonl"
        self.said = directory / "said"
        (self.bundle / "rootfs").mkdir(parents=True)
        self.say = directory / "say"
        self.say.write_text(SAY)
        self.say.chmod(0o755)
        self.program = install(directory, self.records)
        self.write_spec()

    def write_spec(self, failing="", **more):
        hooks = {
            kind: [{"path": str(self.say), "args": ["say", kind, str(self.said), "7" if kind == failing else "0"]}]
            for kind in ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
        }
        (self.bundle / "config.json").write_text(json.dumps({"hooks": hooks, **more}))

    def __call__(self, *words):
        return subprocess.run(
            [self.program, "--root", self.directory / "state", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "COLOUR": "red"},
        )

    def create(self, name="c1"):
        return self("create", "--bundle", self.bundle, "--pid-file", self.directory / "pid", name)

    @property
    def pid(self):
        return int((self.directory / "pid").read_text())

    @property
    def hooks_run(self):
        lines = self.said.read_text().splitlines()
        return [
            (line.split()[0], json.loads(state)["status"]) for line, state in zip(lines[::2], lines[1::2], strict=True)
        ]


@pytest.fixture
def runc(tmp_path):
    runc = Runc(tmp_path)
    yield runc
    for name in ("c1", "c2"):
        runc("delete", "--force", name)


def status(runc, name="c1"):
    return json.loads(runc("state", name).stdout)["status"]


def test_a_container_goes_from_created_to_running_to_stopped_to_nothing(runc):
    seen = []

    assert runc.create().returncode == 0
    seen.append(status(runc))
    assert runc("start", "c1").returncode == 0
    seen.append(status(runc))
    assert runc("kill", "c1", "KILL").returncode == 0
    while status(runc) == "running":
        pass
    seen.append(status(runc))
    assert runc("delete", "c1").returncode == 0

    assert seen == ["created", "running", "stopped"]
    assert runc("state", "c1").stderr == "runc: container does not exist\n"


def test_the_init_leads_a_session_of_its_own_and_is_named_by_the_pid_file(runc):
    runc.create()

    assert os.getsid(runc.pid) == runc.pid
    assert Path(f"/proc/{runc.pid}/comm").read_text() == "sleep\n"
    assert (runc.directory / "pid").stat().st_mtime > 0


def test_the_state_directory_names_the_init_as_runc_does(runc):
    runc.create()

    kept = json.loads((runc.directory / "state" / "c1" / "state.json").read_text())

    assert kept["init_process_pid"] == runc.pid
    assert str(kept["init_process_start"]) == Path(f"/proc/{runc.pid}/stat").read_text().split()[21]


def test_hooks_run_in_the_order_and_with_the_states_of_runc(runc):
    runc.create()
    runc("delete", "--force", "c1")

    assert runc.hooks_run == [
        ("prestart", "creating"),
        ("createRuntime", "creating"),
        ("createContainer", "creating"),
        ("poststart", "created"),
        ("poststop", "stopped"),
    ]


def test_a_hook_reads_id_pid_bundle_and_annotations(runc):
    runc.write_spec(annotations={"a": "b"})

    runc.create()

    state = json.loads(runc.said.read_text().splitlines()[3])
    assert state == {
        "ociVersion": "1.2.0",
        "id": "c1",
        "pid": runc.pid,
        "status": "creating",
        "bundle": str(runc.bundle),
        "annotations": {"a": "b"},
    }


@pytest.mark.parametrize("kind", ["createRuntime", "createContainer", "poststart"])
def test_a_failing_hook_fails_the_create_and_nothing_is_left(runc, kind):
    runc.write_spec(failing=kind)

    ended = runc.create()

    assert ended.returncode == 1
    assert f"error running {kind} hook #0: exit status 7" in ended.stderr
    assert runc.hooks_run[-1] == ("poststop", "stopped")
    assert runc("list", "-q").stdout == "\n"


def test_a_failing_poststop_hook_fails_nothing(runc):
    runc.write_spec(failing="poststop")
    runc.create()

    assert runc("delete", "--force", "c1").returncode == 0


def test_a_bundle_can_ask_for_a_create_that_fails_before_there_is_an_init(runc):
    runc.write_spec(annotations={"stand-in-runc/fail": "yes"})

    assert runc.create().returncode == 1
    assert runc.hooks_run == [("poststop", "stopped")]


def test_the_same_id_twice_is_refused_and_the_first_lives_on(runc):
    runc.create()

    again = runc("--log", runc.directory / "log", "create", "--bundle", runc.bundle, "c1")

    assert (again.returncode, again.stderr) == (1, "runc: container with given ID already exists\n")
    assert json.loads((runc.directory / "log").read_text())["msg"] == "container with given ID already exists"
    assert status(runc) == "created"


def test_a_running_container_is_deleted_only_by_force(runc):
    runc.create()
    runc("start", "c1")

    assert runc("delete", "c1").stderr == "runc: cannot delete container c1 that is not stopped: running\n"
    assert runc("delete", "--force", "c1").returncode == 0
    assert runc("delete", "--force", "c1").returncode == 0


def test_run_ends_as_the_init_ends_and_leaves_nothing(runc):
    running = subprocess.Popen([runc.program, "--root", runc.directory / "state", "run", "--bundle", runc.bundle, "c2"])
    while not (runc.directory / "state/c2/state.json").exists() or status(runc, "c2") != "running":
        pass

    runc("kill", "c2", "9")

    assert running.wait() == 128 + 9
    assert runc("list", "-q").stdout == "\n"


def test_every_call_is_recorded_with_what_it_was_given(runc):
    runc.create()
    runc("exec", "--process", "p.json", "c1")

    created, executed = map(json.loads, runc.records.read_text().splitlines())

    assert created["argv"][2:] == ["create", "--bundle", str(runc.bundle), "--pid-file", f"{runc.directory}/pid", "c1"]
    assert created["environment"]["COLOUR"] == "red"
    assert created["config"] == json.loads((runc.bundle / "config.json").read_text())
    assert executed["argv"][2:] == ["exec", "--process", "p.json", "c1"]
    assert created["pid"] != runc.pid
