"""amd-ctk run and queue, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from amd_gpu_tracker import Tracker
from support.shared_host import without_time

SECONDS = 60
NO_NAME = (
    "is not a name for a job"
    " (use up to 64 letters, digits, '_', '.' and '-', and begin with a letter, a digit or '_')\n"
)


@pytest.fixture
def start(program, tmp_path):
    """Return a function that starts amd-ctk and does not wait for its end."""
    started = []

    def run(*words, shell="", **options):
        """Start amd-ctk, behind redirections of a shell where there are any."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMD_CTK_HOST_ROOT": str(tmp_path / "host")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", program, *words] if shell else [program, *words]
        started.append(subprocess.Popen(command, env=environment, **{**pipes, **options}))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def users(host):
    return {gpu.number: [use.container_id for use in gpu.containers] for gpu in Tracker(host).status().gpus}


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_command_has_its_gpus_and_no_other(tracked, amd_ctk):
    script = 'echo "$AMD_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES ${AMD_CTK_RESERVATION%.*}"'

    answer = amd_ctk("run", "--gpus=1-2", "--name=train", "--", "sh", "-c", script)

    assert (answer.returncode, answer.stderr) == (0, "GPUs 1 and 2\n")
    assert answer.stdout == "1,2 GPU-89caa15875ff5a43,GPU-6e32f10efc982b4c train\n"
    assert users(tracked) == {0: [], 1: [], 2: [], 3: []}


def test_a_command_may_say_how_many(tracked, amd_ctk):
    with Tracker(tracked).reserve("0", name="other"):
        answer = amd_ctk("run", "--gpus", "free:1", "sh", "-c", "echo $AMD_VISIBLE_DEVICES")

    assert (answer.stdout, answer.stderr) == ("1\n", "GPU 1\n")


def test_its_options_are_its_own(tracked, amd_ctk):
    assert amd_ctk("run", "printf", "%s", "-name", "help", "--wait").stdout == "-namehelp--wait"
    assert amd_ctk("run", "--wait", "--", "printf", "%s", "-gpus", "--wait").stdout == "-gpus--wait"


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_that_of_the_command(tracked, amd_ctk, code):
    assert amd_ctk("run", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGPIPE])
def test_death_by_a_signal_is_that_of_the_command(tracked, amd_ctk, number):
    assert amd_ctk("run", "--", "sh", "-c", f"kill -{int(number)} $$").returncode == -number


def test_signals_reach_the_command(tracked, start):
    job = start("run", "--name=train", "--", "sh", "-c", "trap 'exit 7' USR1; echo ready; read line; exit 1")
    assert job.stdout.readline() == "ready\n"
    assert users(tracked)[0] == ["train"]

    job.send_signal(signal.SIGUSR1)

    assert job.wait(SECONDS) == 7
    assert users(tracked)[0] == []


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("missing-program", 127, "missing-program cannot be run: it does not exist\n"),
        ("/etc", 126, "/etc cannot be run: access is refused\n"),
    ],
)
def test_a_command_that_cannot_be_run_does_not_wait(tracked, amd_ctk, command, code, said):
    with Tracker(tracked).reserve("0", name="train"):
        answer = amd_ctk("run", "--gpus=0", "--wait=5s", "--", command)

    assert (answer.returncode, answer.stderr) == (code, said)


def test_a_command_that_cannot_be_executed_gives_the_gpus_back(tracked, amd_ctk, tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\0")
    program.chmod(0o755)

    answer = amd_ctk("run", "--gpus=0", "--", program)

    assert (answer.returncode, answer.stderr) == (126, f"GPU 0\n{program} cannot be run: Exec format error\n")
    assert users(tracked)[0] == []


@pytest.mark.needs("root")
def test_a_program_without_its_unit_does_not_wait(tracked, amd_ctk, tmp_path):
    # Only `true` is on this path.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "true").symlink_to("/bin/true")

    answer = amd_ctk("run", "--unit", "--", "true", PATH=f"{tmp_path}/bin")

    assert (answer.returncode, answer.stderr) == (127, "systemd-run cannot be run: it does not exist\n")


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-", "2>&- >&- <&-"])
def test_a_job_runs_also_if_no_message_can_be_written(tracked, start, tmp_path, program, closed):
    ran = tmp_path / "ran"
    job = start("run", "--gpus=3", "--", "sh", "-c", f"echo $AMD_VISIBLE_DEVICES >{ran}", shell=closed)

    said = job.communicate(timeout=SECONDS)[0]

    assert (job.returncode, said, ran.read_text()) == (0, "", "3\n")


@pytest.mark.parametrize("words", ["run --each=- --output=logs -- true", "image pick -"])
def test_standard_input_that_is_closed_cannot_be_read(tracked, start, words):
    job = start(*words.split(), shell="<&-")

    assert job.communicate(timeout=SECONDS)[1] == "- cannot be read: standard input is closed\n"


def test_the_exit_code_says_what_cannot_be_said(tracked, start):
    job = start("run", "--gpus=99", "--", "true", shell="2>/dev/full")

    assert (job.communicate(timeout=SECONDS)[0], job.returncode) == ("", 4)


def test_a_terminal_that_stands_still_holds_up_no_job(tracked, start):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)

    job = start("run", "--gpus=3", "--", "sh", "-c", "echo $AMD_VISIBLE_DEVICES", stderr=writer)

    assert job.communicate(timeout=SECONDS)[0] == "3\n"
    os.close(reader)
    os.close(writer)


def test_filters_of_the_caller_do_not_hide_the_gpus(tracked, amd_ctk):
    filters = {
        "ROCR_VISIBLE_DEVICES": "7",
        "HIP_VISIBLE_DEVICES": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "GPU_DEVICE_ORDINAL": "1",
    }

    answer = amd_ctk("run", "--gpus=1", "--", "env", **filters)

    assert {line for line in answer.stdout.splitlines() if "DEVICE" in line} == {
        "AMD_VISIBLE_DEVICES=1",
        "ROCR_VISIBLE_DEVICES=GPU-89caa15875ff5a43",
        "HIP_VISIBLE_DEVICES=0",
    }


def test_explain_shows_that_what_a_command_is_given_hides_none_of_its_gpus(tracked, amd_ctk, program):
    explain = f'''exec {program} explain -e "AMD_VISIBLE_DEVICES=$AMD_VISIBLE_DEVICES" \\
        -e "ROCR_VISIBLE_DEVICES=$ROCR_VISIBLE_DEVICES" -e "HIP_VISIBLE_DEVICES=$HIP_VISIBLE_DEVICES"'''

    answer = amd_ctk("run", "--gpus=1-2", "--", "sh", "-c", explain)

    lines = [line.partition(" ") for line in answer.stdout.splitlines()]
    effect_by_variable = {variable: words.strip() for variable, _, words in lines}
    ids = "ROCR_VISIBLE_DEVICES=GPU-89caa15875ff5a43,GPU-6e32f10efc982b4c"
    assert effect_by_variable[ids] == "hides nothing: the container sees 2 GPUs, which ROCm counts 0-1"
    counted = "HIP_VISIBLE_DEVICES=0,1"
    assert effect_by_variable[counted] == "hides nothing: the container sees 2 GPUs, which HIP counts 0-1"


def test_in_a_job_of_slurm_the_gpus_of_the_job_count(tracked, amd_ctk, tmp_path):
    (tmp_path / "host/etc/slurm").mkdir(parents=True)
    (tmp_path / "host/etc/slurm/gres.conf").write_text(
        "".join(f"Name=gpu File=/dev/dri/renderD{minor}\n" for minor in (130, 131, 129, 128))
    )
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "2,3", "ROCR_VISIBLE_DEVICES": "2,3"}
    script = 'echo "$AMD_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES"'

    chosen = amd_ctk("run", "--gpus=auto:1", "--wait", "--", "sh", "-c", script, **slurm)
    refused = amd_ctk("run", "--gpus=0", "--wait", "--", "true", **slurm)

    assert (chosen.stdout, chosen.stderr) == ("2 GPU-6e32f10efc982b4c\n", "GPU 2\n")
    assert (refused.returncode, refused.stderr) == (
        4,
        "GPU 0 is not among the GPUs this process may use (2, 3) (Slurm gave this job 2, 3)\n",
    )


def test_a_number_is_that_of_a_gpu_and_a_count_is_asked_for_by_its_own_option(tracked, amd_ctk):
    numbered = amd_ctk("run", "--gpus", "2", "--", "printenv", "AMD_VISIBLE_DEVICES")
    counted = amd_ctk("run", "--count", "2", "--", "printenv", "AMD_VISIBLE_DEVICES")
    both = amd_ctk("run", "--gpus=2", "--count=2", "--", "true")

    assert (numbered.stdout, numbered.stderr) == (
        "2\n",
        "--gpus 2 is GPU number 2; for 2 free GPUs use --count 2\nGPU 2\n",
    )
    assert (counted.stdout, counted.stderr) == ("0,1\n", "GPUs 0 and 1\n")
    assert (both.returncode, both.stderr) == (2, "--gpus and --count exclude each other (leave out one of them)\n")


def test_without_a_gpu_there_is_no_reservation_to_hand_on(tracked, amd_ctk):
    answer = amd_ctk("run", "--gpus=", "--", "env", AMD_CTK_RESERVATION="outer.0123")

    assert {line for line in answer.stdout.splitlines() if "AMD_V" in line or "AMD_CTK_R" in line} == {
        "AMD_VISIBLE_DEVICES="
    }


def test_a_warning_names_an_engine_that_is_not_the_first_word(tracked, amd_ctk, tmp_path):
    (tmp_path / "launcher").symlink_to("/bin/true")
    command = ("launcher", "1", "docker", "run", "image")

    answer = amd_ctk("run", "--gpus=0", "--", *command, PATH=f"{tmp_path}:{os.environ['PATH']}")

    assert answer.returncode == 0
    assert answer.stderr == (
        "'docker run' is not the first word of the command, so its container is not given the GPUs (write"
        " 'docker run --runtime=amd -e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION')\nGPU 0\n"
    )


def test_a_job_waits_for_the_one_before_it(tracked, start):
    first = start("run", "--gpus=all", "--name=train-3", "--", "sh", "-c", "echo ready; read line")
    assert first.stdout.readline() == "ready\n"
    second = start("run", "--gpus=auto:2", "--wait", "--", "sh", "-c", "echo $AMD_VISIBLE_DEVICES")
    # It has looked for GPUs, and found none; it may be in the queue before that.
    assert second.stderr.readline().startswith("waiting for 2 GPUs")
    first.communicate("\n", timeout=SECONDS)

    out, errors = second.communicate(timeout=SECONDS)

    assert out == "0,1\n"
    assert errors.splitlines()[-1].startswith("GPUs 0 and 1 after ")


def test_a_wait_has_an_end(tracked, amd_ctk):
    with Tracker(tracked).reserve("0", name="train"):
        answer = amd_ctk("run", "--gpus=0", "--wait=1s", "--name=late", "--", "true")

    assert answer.returncode == 12
    assert without_time(answer.stderr) == (
        "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: train since 12:00\nthere was no GPU for late within 1 s\n"
    )


def test_who_does_not_wait_for_a_gpu_in_use_reads_how_to_wait(tracked, amd_ctk):
    with Tracker(tracked).reserve("0", name="train"):
        answer = amd_ctk("run", "--gpus=0", "--name=late", "--", "true")

    assert (answer.returncode, answer.stderr) == (
        1,
        "GPUs [0] are exclusive and already in use\nGPU 0 is in use by job train (--wait waits for them)\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--gpus=auto:9", "--wait"), 4, "auto:9: this host has 4 GPUs\n"),
        (("--wait=soon",), 2, "'soon' is not a time to wait (write 30s, 10m or 2h)\n"),
        (("--name=a/b",), 2, f"'a/b' {NO_NAME}"),
    ],
)
def test_a_request_that_can_never_be_met_is_refused_at_once(tracked, amd_ctk, words, code, said):
    answer = amd_ctk("run", *words, "--", "true")

    assert (answer.returncode, answer.stderr) == (code, said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--wait", "5s", "--", "true"), 2, "'5s' is not a program (write --wait=5s)\n"),
        (("--wait", "10", "true"), 2, "'10' is not a program (write --wait=10)\n"),
        (("--wait=1s", "--", "5s"), 127, "5s cannot be run: it does not exist\n"),
        (("--wait", "--", ""), 127, "'' cannot be run: it does not exist\n"),
    ],
)
def test_a_time_in_the_place_of_the_command_and_no_command_are_refused(tracked, amd_ctk, words, code, said):
    answer = amd_ctk("run", *words)

    assert (answer.returncode, answer.stderr) == (code, said)


def test_a_job_that_can_have_no_ticket_cannot_be_cancelled(tracked, amd_ctk):
    answer = amd_ctk("queue", "cancel", "")

    assert answer.returncode == 2
    assert answer.stderr == f"'' {NO_NAME}"


def test_a_container_of_the_command_is_given_the_gpus(tracked, amd_ctk, tmp_path):
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho "$@"\n')
    docker.chmod(0o755)

    answer = amd_ctk("run", "--", "docker", "run", "image", PATH=f"{docker.parent}:{os.environ['PATH']}")

    assert answer.stdout == "run -e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION image\n"


def test_a_container_that_can_have_no_gpu_does_not_wait_for_one(tracked, amd_ctk, tmp_path):
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("""#!/bin/sh\necho '{"Runtimes": {"runc": {"path": "runc"}}, "DefaultRuntime": "runc"}'\n""")
    docker.chmod(0o755)

    with Tracker(tracked).reserve("all", name="train"):
        answer = amd_ctk(
            *("run", "--wait", "--", "docker", "run", "image"), PATH=f"{docker.parent}:{os.environ['PATH']}"
        )

    assert (answer.returncode, answer.stdout) == (126, "")
    assert answer.stderr == (
        "docker has no runtime amd (run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker')\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may limit the devices of a unit")
def test_a_unit_is_made_by_systemd(tracked, amd_ctk, tmp_path):
    systemd = tmp_path / "bin" / "systemd-run"
    systemd.parent.mkdir()
    systemd.write_text('#!/bin/sh\necho "$@"\n')
    systemd.chmod(0o755)

    answer = amd_ctk("run", "--unit", "--gpus=0", "--", "sh", PATH=f"{systemd.parent}:{os.environ['PATH']}")

    assert answer.stdout == (
        "--scope --quiet --collect -p DevicePolicy=closed -p DeviceAllow=block-* rwm -p DeviceAllow=/dev/kfd rw "
        "-p DeviceAllow=/dev/dri/renderD130 rw -p DeviceAllow=/dev/dri/card3 rw -- sh\n"
    )


def test_ctrl_c_ends_a_wait(tracked, start):
    with Tracker(tracked).reserve("0", name="train"):
        job = start("run", "--gpus=0", "--wait", "--", "true")
        wait_until(lambda: Tracker(tracked).waiting())
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)

        assert job.wait(SECONDS) == -signal.SIGINT
        assert Tracker(tracked).waiting() == []


@pytest.mark.needs("root")
def test_the_queue_is_listed_and_changed(tracked, start, amd_ctk):
    assert amd_ctk("queue", "list").stdout == "No job waits for GPUs\n"
    with Tracker(tracked).reserve("0", name="train"):
        job = start("run", "--gpus=0", "--wait", "--name=late", "--", "true")
        wait_until(lambda: Tracker(tracked).waiting())
        table = amd_ctk("queue", "list").stdout.partition("\n\n")[2].splitlines()
        listed = json.loads(amd_ctk("queue", "list", "--json").stdout)["jobs"]
        having = json.loads(amd_ctk("queue", "list", "--json").stdout)["running"]
        cancelled = amd_ctk("end", "late")

        assert job.wait(SECONDS) == 12
        again = amd_ctk("queue", "cancel", "late")

    assert [(each["name"], each["pid"], each["containers"]) for each in having] == [("train", os.getpid(), [])]
    assert table[0].split() == ["Place", "Person", "Name", "GPUs", "Request", "Waiting", "for", "Process"]
    assert table[1].split()[:5] == ["1", "root", "late", "1", "0"]
    assert [(each["place"], each["name"], each["count"], each["request"]) for each in listed] == [(1, "late", 1, "0")]
    assert (cancelled.returncode, cancelled.stderr) == (0, "late was removed from the queue\n")
    assert (again.returncode, again.stderr) == (11, "no job late waits for GPUs (see 'amd-ctk queue')\n")


def test_a_job_ends_for_others_now_or_never(host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("run", "--preempt=later", "--", "true")

    assert (answer.returncode, answer.stderr) == (
        2,
        "--preempt=later is not known (write --preempt=now)\n",
    )


def test_only_the_service_can_end_a_job_for_others(host, amd_ctk):
    host("mi210-4")
    amd_ctk("gpu-tracker", "enable")

    answer = amd_ctk("run", "--preempt=now", "--", "true")

    assert (answer.returncode, answer.stderr) == (
        3,
        "users cannot reserve GPUs on this host (the administrator enables it with 'sudo amd-ctk users allow NAME')\n",
    )
