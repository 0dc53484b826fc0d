"""What is not `create` goes through untouched, and what cannot go through says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("state", "c1"),
        ("--root", "/r", "--log", "/l", "kill", "c1", "9"),
        ("exec", "c1", "create", "--bundle", "/b"),
        ("delete", "--force", "create"),
        ("features",),
        ("update", "--resources=-", "c1"),
        (),
        ("", " ", "a b", "*", "'\""),
    ],
)
def test_other_calls_reach_runc_word_for_word(runtime, words):
    answer = runtime.run(*words)

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert runtime.runc_words == list(words)


@pytest.mark.parametrize("words", [["--version"], ["-v"], ["--root", "/r", "--version"]])
def test_the_version_is_that_of_runc_and_then_of_the_toolkit(runtime, words):
    runtime.runc.write_text("#!/bin/sh\nprintf 'runc version 1.3.0\\ncommit: v1.3.0\\nspec: 1.2.1\\n'\nexit 3\n")

    answer = runtime.run(*words)

    # As go-runc and dockerd read it: the first line, and the last with "version" in it.
    assert (answer.returncode, answer.stderr) == (3, "")
    assert answer.stdout == (
        f"runc version 1.3.0\ncommit: v1.3.0\nspec: 1.2.1\namd-container-runtime: {version('amd-container-runtime')}\n"
    )


def test_a_container_that_keeps_its_users_groups_is_made_by_crun(runtime):
    crun = runtime.runc.with_name("crun")
    crun.write_text(runtime.runc.read_text())
    crun.chmod(0o755)
    runtime.write_config("AMD_VISIBLE_DEVICES=0", annotations={"run.oci.keep_original_groups": "1"})

    assert runtime.create().returncode == 0

    assert runtime.calls.read_text().splitlines()[0] == str(crun)
    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]


def test_where_crun_is_missing_the_log_says_that_groups_are_not_kept(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", annotations={"run.oci.keep_original_groups": "1"})
    # This machine may have a crun in one of the usual directories.
    without = "from amd_container_runtime import runc; runc.USUAL_DIRECTORIES = ()"
    words = ["/usr/bin/amd-container-runtime", "create", "--bundle", str(runtime.bundle), "c1"]
    code = f"import sys; sys.argv = {words}; {without}; from amd_container_runtime.shim import main; main()"
    environment = {**runtime.environment, "PATH": str(runtime.runc.parent)}

    answer = subprocess.run([sys.executable, "-I", "-c", code], env=environment, check=False, timeout=60)

    assert answer.returncode == 0
    assert [line for line in runtime.own_log if "level=WARN" in line] == [
        (
            'level=WARN msg="amd-container-runtime run.oci.keep_original_groups=1 needs crun, which is not installed:'
            f' {runtime.runc} makes the container without it" container=c1'
        )
    ]


def test_a_configured_runtime_that_others_may_replace_is_reported_in_the_log(runtime):
    runtime.configure(low_level_runtime=str(runtime.runc))
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    runtime.create()
    runtime.runc.parent.chmod(0o777)

    runtime.create()

    assert [line for line in runtime.own_log if "level=WARN" in line] == [
        (
            f'level=WARN msg="amd-container-runtime {runtime.runc} can be replaced by users other than root,'
            f' who may write to {runtime.runc.parent}"'
        )
    ]


@pytest.mark.parametrize("value", ["0", "true", 1])
def test_only_the_value_that_crun_knows_makes_the_difference(runtime, value):
    crun = runtime.runc.with_name("crun")
    crun.write_text(runtime.runc.read_text())
    crun.chmod(0o755)
    runtime.write_config(annotations={"run.oci.keep_original_groups": value})

    assert runtime.create().returncode == 0

    assert runtime.calls.read_text().splitlines()[0] == str(runtime.runc)


def test_help_says_that_this_is_a_wrapper(runtime):
    answer = runtime.run("--help")

    assert answer.stdout == "\nAMD Container Runtime is a wrapper over runc. Below is the help for runc.\n\n"
    assert runtime.runc_words == ["--help"]


@pytest.mark.parametrize("command", ["create", "run", "restore"])
def test_the_help_of_a_command_needs_no_bundle(runtime, command):
    answer = runtime.run(command, "--help")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert runtime.runc_words == [command, "--help"]


def test_the_process_itself_becomes_runc(runtime, tmp_path):
    """Signals, descriptors and the exit code are runc's because there is no second process."""
    runtime.runc.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\ncat\nread line <&3 && echo $line\nkill -TERM $$\n")
    read, write = os.pipe()
    os.write(write, b"from descriptor 3\n")
    os.close(write)
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", "from amd_container_runtime.shim import main; main()", "state", "c1"],
        preexec_fn=lambda: os.dup2(read, 3),  # noqa: PLW1509 - this process has one thread
        pass_fds=[3],
        env=runtime.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    os.close(read)

    output, _ = child.communicate(b"from standard input\n")

    assert output == b"from standard input\nfrom descriptor 3\n"
    assert (tmp_path / "pid").read_text().strip() == str(child.pid)
    assert child.returncode == -signal.SIGTERM


# In the C locale python sets LC_CTYPE, in its own environment too.
@pytest.mark.parametrize(
    "locale", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}, {"LANG": "C.UTF-8"}]
)
def test_the_environment_reaches_runc_unchanged(runtime, tmp_path, locale):
    runtime.runc.write_text(f"#!/bin/sh\n/bin/cat /proc/$$/environ > {tmp_path}/env\n")
    added = {"LD_LIBRARY_PATH": "/opt/containerd/lib:", "_OCI_SYNCPIPE": "3", "EMPTY": "", **locale}

    runtime.run("state", "c1", **added)

    seen = dict(entry.split("=", 1) for entry in (tmp_path / "env").read_text().split("\0")[:-1])
    assert seen == {**runtime.environment, **added}


# SIGPIPE and SIGXFSZ.
PYTHON_IGNORES = 1 << 12 | 1 << 24
# 32 and 33, which glibc keeps for itself; python 3.13 starts programs with posix_spawn, which ignores them.
GLIBC_IGNORES = 1 << 31 | 1 << 32


def test_no_signal_is_ignored_by_runc_that_was_not_before(runtime, tmp_path):
    runtime.runc.write_text(f"#!/bin/sh\n/bin/grep ^SigIgn: /proc/$$/status > {tmp_path}/ignored\n")

    runtime.run("state", "c1")

    # A shell that runs these tests in the background makes them ignore some.
    with open("/proc/self/status", encoding="ascii") as status:
        own = next(line for line in status if line.startswith("SigIgn:"))
    expected = int(own.split()[1], 16) & ~PYTHON_IGNORES
    ignored = int((tmp_path / "ignored").read_text().split()[1], 16)
    assert ignored & ~GLIBC_IGNORES == expected & ~GLIBC_IGNORES


def test_a_runtime_whose_interpreter_is_gone_is_named(runtime):
    runtime.runc.write_text("#!/nowhere/sh\n")

    answer = runtime.run("state", "c1")

    assert (answer.returncode, answer.stderr) == (
        7,
        f"amd-container-runtime: the low-level runtime {runtime.runc} cannot be run: it does not exist\n",
    )


def test_a_reader_of_stderr_that_is_gone_changes_no_exit_code(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=9")
    read, write = os.pipe()
    os.close(read)

    answer = subprocess.run(
        [
            *(sys.executable, "-I", "-c", "from amd_container_runtime.shim import main; main()"),
            *("--log", str(runtime.log), "--log-format", "json", "create", "--bundle", str(runtime.bundle), "c1"),
        ],
        env=runtime.environment,
        stderr=write,
        check=False,
    )
    os.close(write)

    assert answer.returncode == 4
    assert len(runtime.reported) == 1


def test_no_runtime_to_hand_over_to_is_reported_before_anything_is_done(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    before = (runtime.bundle / "config.json").read_bytes()
    runtime.configure(low_level_runtime="/nowhere/runc")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        7,
        (
            "amd-container-runtime: the low-level runtime /nowhere/runc cannot be run: it is missing, not executable or"
            " this program itself (correct it with 'sudo amd-ctk config set low-level-runtime /usr/bin/runc')\n"
        ),
    )
    assert (runtime.bundle / "config.json").read_bytes() == before


def test_a_broken_configuration_stops_create_and_not_delete(runtime, tmp_path):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    etc = tmp_path / "host/etc/amd-container-toolkit"
    etc.mkdir(parents=True, exist_ok=True)
    (etc / "config.toml").write_text("device-mode = sideways\n")

    assert runtime.create().returncode != 0
    assert runtime.runc_words is None
    assert runtime.run("delete", "--force", "c1").returncode == 0
    assert runtime.runc_words == ["delete", "--force", "c1"]


def test_a_host_root_that_is_gone_stops_create_and_not_delete(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    answer = runtime.create(AMD_CTK_HOST_ROOT="/nowhere/host")

    assert answer.stderr == (
        "amd-container-runtime: AMD_CTK_HOST_ROOT=/nowhere/host is not a directory"
        " (run 'unset AMD_CTK_HOST_ROOT'; 'env -u AMD_CTK_HOST_ROOT amd-ctk simulate build PROFILE DIR' builds one)\n"
    )
    assert runtime.run("delete", "c1", AMD_CTK_HOST_ROOT="/nowhere/host").returncode == 0


def test_a_bug_is_reported_to_the_engine_and_shows_its_trace(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    broken = "import amd_container_runtime.create as c; c.plan_start = lambda *_, **__: 1 / 0; "

    answer = subprocess.run(
        [
            *(sys.executable, "-I", "-c", f"{broken}from amd_container_runtime.shim import main; main()"),
            *("--log", str(runtime.log), "--log-format", "json", "create", "--bundle", str(runtime.bundle), "c1"),
        ],
        env=runtime.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 1
    assert [line["msg"] for line in runtime.reported] == [
        "amd-container-runtime: internal error, please report it: ZeroDivisionError: division by zero"
    ]
    assert "Traceback" in answer.stderr
    assert runtime.runc_words is None


def test_a_text_log_gets_a_line_as_runc_writes_it(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=9")

    runtime.run(f"--log={runtime.log}", "create", "--bundle", runtime.bundle, "c1")

    line = runtime.log.read_text()
    assert line.startswith("time=")
    assert line.endswith(
        ' level=error msg="amd-container-runtime: AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3'
        " ('amd-ctk gpu list' shows them)\"\n"
    )


def test_a_line_is_added_to_what_the_engine_already_has(runtime):
    runtime.log.write_text('{"level":"info","msg":"theirs"}\n')
    runtime.write_config("AMD_VISIBLE_DEVICES=9")

    runtime.create()

    assert [json.loads(line)["level"] for line in runtime.log.read_text().splitlines()] == ["info", "error"]


def test_the_environment_is_never_logged(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "SECRET=hunter2")

    runtime.create(SECRET="hunter2")

    assert runtime.own_log == [
        'level=INFO msg="amd-container-runtime Requested GPUs for container" gpu_indices=[0] container=c1',
    ]


def test_a_log_that_cannot_be_written_stops_nothing(runtime, tmp_path):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    os.rmdir(runtime.host.path("/var/log"))

    answer = runtime.create(HOME="/nowhere")

    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_log_that_is_a_pipe_nobody_reads_stops_nothing(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    os.mkfifo(runtime.host.path("/var/log/amd-container-runtime.log"))

    assert runtime.create(HOME="/nowhere").returncode == 0


def test_a_link_in_place_of_the_log_at_home_is_not_followed(runtime, tmp_path):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    os.rmdir(runtime.host.path("/var/log"))
    (tmp_path / "precious").touch()
    (tmp_path / "amd-container-runtime.log").symlink_to("precious")

    assert runtime.create().returncode == 0
    assert (tmp_path / "precious").read_bytes() == b""


def test_a_user_without_access_to_the_systems_log_has_one_at_home(runtime, tmp_path):
    runtime.write_config("AMD_VISIBLE_DEVICES=0,1")
    os.rmdir(runtime.host.path("/var/log"))

    runtime.create()

    assert 'gpu_indices="[0 1]"' in (tmp_path / "amd-container-runtime.log").read_text()
