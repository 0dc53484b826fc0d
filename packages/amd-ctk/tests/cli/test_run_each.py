"""amd-ctk run --each, as a process: many jobs, their logs, and what happens when somebody ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker

SECONDS = 60


@pytest.fixture(autouse=True)
def heard():
    """Let programs hear SIGHUP; whoever runs the tests with nohup means the tests."""
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def each(tracked, amd_ctk, tmp_path):
    """Return a function that runs a job for each line of a text."""

    def run(text, *words):
        (tmp_path / "lines").write_text(text)
        return amd_ctk("run", f"--each={tmp_path}/lines", f"--output={tmp_path}/logs", *words)

    return run


@pytest.fixture
def started(program, tracked, tmp_path):
    """Return a function that starts a job for each line, and does not wait for the end."""
    running = []

    def start(text, *words):
        (tmp_path / "lines").write_text(text)
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMD_CTK_HOST_ROOT": str(tmp_path / "host")}
        options = [f"--each={tmp_path}/lines", f"--output={tmp_path}/logs", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen([program, "run", *options], env=environment, start_new_session=True, **pipes))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def logs(tmp_path):
    return lambda: {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}


def programs_of(process):
    """Return the command line of each process in the session that `process` leads."""
    programs = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == process.pid:
                programs.append((path / "cmdline").read_text())
    return programs


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_line_stands_for_the_braces_of_the_command(each, logs):
    answer = each("red  green\n\n# a comment\nblue\n", "--at-once=1", "--gpus=2", "--", "echo", "<{}>", "{}")

    assert (answer.returncode, answer.stdout) == (0, "")
    assert answer.stderr == "2 jobs ended\n"
    assert logs() == {
        "1.log": "--gpus 2 is GPU number 2; for 2 free GPUs use --count 2\nGPU 2\n<red  green> red  green\n",
        "4.log": "--gpus 2 is GPU number 2; for 2 free GPUs use --count 2\nGPU 2\n<blue> blue\n",
    }


def test_without_braces_the_words_of_the_line_follow_the_command(each, logs):
    each("--seed 1 'two words'\n", "--gpus=free:1", "--", "printf", "%s,")

    assert logs() == {"1.log": "GPU 0\n--seed,1,two words,"}


def test_each_job_has_a_gpu_of_its_own_and_a_name(each, tmp_path):
    (tmp_path / "here").mkdir()
    # Each holds its GPU until all have one.
    script = """
        echo $AMD_CTK_RESERVATION $AMD_VISIBLE_DEVICES >$0/{}
        until [ $(ls $0 | wc -l) = 4 ]; do sleep 0.02; done
    """

    answer = each("1\n2\n3\n4\n", "--name=sweep", "--", "sh", "-c", script, f"{tmp_path}/here")

    assert answer.stderr == "4 jobs ended\n"
    had = {path.name: path.read_text().split() for path in (tmp_path / "here").iterdir()}
    assert {line: token.rpartition(".")[0] for line, (token, _) in had.items()} == {
        line: f"sweep-{line}" for line in "1234"
    }
    assert sorted(gpu for _, gpu in had.values()) == ["0", "1", "2", "3"]


def test_no_more_jobs_than_that_run_at_once(each, tmp_path):
    script = "mkdir $0/{} && ls $0 | wc -l; sleep 0.05; rmdir $0/{}"
    (tmp_path / "running").mkdir()

    each("".join(f"{number}\n" for number in range(12)), "--at-once=2", "--", "sh", "-c", script, f"{tmp_path}/running")

    seen = [int(path.read_text().split()[-1]) for path in (tmp_path / "logs").iterdir()]
    assert len(seen) == 12
    assert max(seen) <= 2


def test_the_exit_code_is_the_number_of_jobs_that_failed(each, tmp_path):
    answer = each("0\n3\n0\n4\n", "--at-once=1", "--", "sh", "-c", "exit {}")

    assert answer.returncode == 2
    assert answer.stderr == (
        f"Line 2 failed with exit code 3: see {tmp_path}/logs/2.log\n"
        f"Line 4 failed with exit code 4: see {tmp_path}/logs/4.log\n"
        "4 jobs ended, 2 failed: lines 2, 4\n"
    )


def test_more_than_a_hundred_failures_are_a_hundred_and_one(each):
    assert each("1\n" * 103, "--at-once=4", "--gpus=none", "--", "false").returncode == 101


def test_a_job_that_gets_no_gpu_says_so_in_its_log(each, logs, tmp_path):
    answer = each("1\n", "--gpus=9", "--", "true")

    assert answer.returncode == 1
    assert answer.stderr.startswith("Line 1 failed with exit code ")
    assert "GPU" in logs()["1.log"]


def test_a_job_that_was_killed_is_told_by_its_signal(each, tmp_path):
    answer = each("KILL\n", "--", "sh", "-c", "kill -{} $$")

    assert answer.stderr == f"Line 1 was ended by SIGKILL: see {tmp_path}/logs/1.log\n1 job ended, 1 failed: line 1\n"


def test_each_begins_at_the_line_of_from_line(each, logs):
    each("a\nb\nc\n", "--from-line=2", "--gpus=none", "--", "echo")

    assert sorted(logs()) == ["2.log", "3.log"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_jobs_with_their_descendants_and_says_where_to_go_on(started, tracked, tmp_path, number):
    process = started("0\n100\n100\n100\n", "--at-once=2", "--", "sh", "-c", "sleep {}; sleep {}; true")
    # Debian's sh puts off a Ctrl-C that comes before its command has begun, until the command has ended.
    wait_until(lambda: programs_of(process).count("sleep\x00100\x00") == 2)

    process.send_signal(number)

    assert process.communicate(timeout=SECONDS) == ("", "Stopped after 1 of 4 jobs. Continue with --from-line=2\n")
    assert process.returncode == -number
    assert [gpu.containers for gpu in Tracker(tracked).status().gpus] == [(), (), (), ()]


def test_the_jobs_are_stopped_and_go_on_with_it(started, tmp_path):
    process = started(
        "x\n", "--", "sh", "-c", "while sleep 0.05; do echo x; [ -e $0 ] && exit; done", f"{tmp_path}/end"
    )
    log = tmp_path / "logs/1.log"
    wait_until(lambda: log.exists() and "x" in log.read_text())

    process.send_signal(signal.SIGTSTP)
    os.waitpid(process.pid, os.WUNTRACED)
    (tmp_path / "end").touch()
    seen = log.read_text()
    time.sleep(0.3)
    assert log.read_text() == seen
    process.send_signal(signal.SIGCONT)

    assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--each=x"], "--each needs a directory for the logs (add --output=DIR)\n"),
        (["--output=x"], "--output, --at-once and --from-line are for jobs of --each (add --each=FILE)\n"),
        (["--at-once=2"], "--output, --at-once and --from-line are for jobs of --each (add --each=FILE)\n"),
        (["--each=/nowhere", "--output=x"], "/nowhere cannot be read: it does not exist\n"),
        (["--each=/dev/zero", "--output=x"], "/dev/zero has more than 1048576 bytes (submit it in parts)\n"),
        (["--each=/dev/null", "--output=x"], "/dev/null has no line with parameters\n"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_the_first_job(tracked, amd_ctk, words, message):
    answer = amd_ctk("run", *words, "--", "true")

    assert answer.returncode in (1, 2)
    assert answer.stderr == message


def test_a_wrong_file_or_program_is_named_even_without_a_driver(host, amd_ctk, tmp_path):
    host("no-driver")

    answer = amd_ctk("run", "--each=/nowhere", "--output=x", "--", "true")
    assert (answer.returncode, answer.stderr) == (1, "/nowhere cannot be read: it does not exist\n")
    (tmp_path / "lines").write_text("1\n")
    words = (f"--each={tmp_path}/lines", f"--output={tmp_path}/logs", "--", "/nowhere/train")
    assert amd_ctk("run", *words).returncode == 127


def test_a_program_that_is_not_there_is_reported_before_the_first_job(each, tmp_path):
    assert each("1\n", "--", "/nowhere/train").returncode == 127
    assert not (tmp_path / "logs").exists()


def test_a_log_is_never_written_through_a_link(each, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/1.log").symlink_to(tmp_path / "victim")

    answer = each("1\n", "--", "true")

    assert answer.returncode == 1
    assert not (tmp_path / "victim").exists()
