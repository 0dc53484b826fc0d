"""amd-ctk simulate: a GPU server laid over this machine, for one command, as programs of the toolkit see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

AMD_CTK = (sys.executable, "-m", "amd_ctk")
RUN = (*AMD_CTK, "simulate", "run")


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "TMPDIR": os.fspath(tmp_path)}


@pytest.fixture(scope="module", autouse=True)
def allowed(tmp_path_factory):
    """Skip where the kernel, or an engine around the tests, allows no namespace."""
    environment = {**os.environ, "TMPDIR": os.fspath(tmp_path_factory.mktemp("tried"))}
    if subprocess.run((*RUN, "one-gpu", "--", "true"), env=environment, capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")


def run(environment, *words):
    done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=False)
    return done.returncode, done.stdout, done.stderr


def test_our_own_programs_need_no_variable(environment):
    shown = run({**environment, "AMD_CTK_HOST_ROOT": environment["TMPDIR"]}, *RUN, "mi210-4", "--", "sh", "-c", "env")[
        1
    ]
    code, listed, said = run(environment, *RUN, "mi300x-8", "--", *AMD_CTK, "gpu", "list", "--json")
    assert code == 0, said

    assert "AMD_CTK_HOST_ROOT" not in shown
    assert [gpu["number"] for gpu in json.loads(listed)["gpus"]] == list(range(8))


def test_files_of_the_toolkit_are_forgotten_with_the_simulated_host(environment, tmp_path):
    shown = run(
        environment, *RUN, "one-gpu", "--", "sh", "-c", f"{' '.join(AMD_CTK)} cdi generate; ls -l /etc/cdi | wc -l"
    )[1]

    assert shown == "Generated CDI spec: /etc/cdi/amd.json\n2\n"
    assert os.listdir(next(tmp_path.glob("amd-ctk-simulations-*"))) == []


def test_state_of_amds_toolkit_on_the_machine_is_not_on_the_simulated_host(environment):
    mounts = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    # In a container of Podman root may make mounts only in a user namespace of its own.
    unshare = ["unshare", "--mount", *([] if mounts else ["--map-root-user"])]
    left = "mount -t tmpfs logs /var/log; echo broken >/var/log/gpu-tracker.json; echo kept >/var/log/syslog"
    looks = f"ls /var/log; {' '.join(AMD_CTK)} gpu-tracker status"
    command = f"{left}; {' '.join(RUN)} one-gpu -- sh -c '{looks}'"

    code, shown, _ = run(environment, *unshare, "sh", "-c", command)

    assert (code, shown) == (0, "syslog\nGPU Tracker is disabled\n")


@pytest.fixture
def waiting(environment):
    """Return a simulation whose command waits for a line, and then shows how the GPUs are."""
    command = f"echo up; read line; {' '.join(AMD_CTK)} status"
    started = subprocess.Popen(
        (*RUN, "mi210-4", "--", "sh", "-c", command),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert started.stdout.readline() == "up\n"
    yield started
    started.kill()
    if not started.stdout.closed:
        started.communicate()


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("ras", "GPU 3 is suspect: 1 uncorrectable error since the driver was loaded"),
        ("hot", "GPU 3 is suspect: 112 C, and its limit is 110 C"),
        ("hang", "GPU 3 is sick: reading gpu_busy_percent ends with no answer"),
        ("busy", "100 %"),
    ],
)
def test_a_gpu_breaks_while_the_command_runs(environment, waiting, fault, shown):
    assert run(environment, *AMD_CTK, "simulate", "break", "3", fault) == (0, f"GPU 3 of mi210-4: {fault}\n", "")

    assert shown in waiting.communicate("\n")[0]


def test_a_lost_gpu_is_gone_with_its_nodes(environment, waiting):
    run(environment, *AMD_CTK, "simulate", "break", "3", "lost")

    shown = waiting.communicate("\n")[0]
    assert [line[:1] for line in shown.splitlines() if "MI210" in line] == ["0", "1", "2"]


def test_break_says_what_is_not_there(environment, waiting):
    assert run(environment, *AMD_CTK, "simulate", "break", "9", "hot")[2] == (
        "GPU 9 does not exist (there are 0, 1, 2, 3)\n"
    )
    assert run(environment, *AMD_CTK, "simulate", "break", "3", "wet")[2] == (
        "'wet' is not a fault (the faults are lost, hot, ras, busy, hang, leaked, orphan, dirty-mode)\n"
    )
    assert run(environment, *AMD_CTK, "simulate", "break", "--of", "other", "3", "hot") == (
        2,
        "",
        "no simulation other runs (start one with the command 'run PROFILE -- COMMAND')\n",
    )


def test_a_simulation_lives_as_long_as_its_command(environment, tmp_path, waiting):
    (directory,) = tmp_path.glob("amd-ctk-simulations-*/mi210-4")
    waiting.kill()
    waiting.wait()

    assert run(environment, *RUN, "one-gpu", "--", "true")[0] == 0

    assert (directory / "lock").exists()
    # The command reads its line, and ends.
    assert "MI210" in waiting.communicate("\n")[0]
    run(environment, *RUN, "one-gpu", "--", "true")
    assert not directory.exists()


# In the user namespaces that users may make, they are themselves or root.
AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
AS_ROOT = ("unshare", "--user", "--map-root-user")
# By unshare, by the kernel, and by an engine around the tests.
REFUSED = ("unshare: ", "no mount namespace can be made here", "cannot be laid over this machine")


@pytest.fixture
def run_in(environment):
    """Return a function that runs a script on a simulated server, in a user namespace of its own."""

    def run_script(namespace, script):
        if any(each in run(environment, *namespace, *RUN, "one-gpu", "--", "true")[2] for each in REFUSED):
            pytest.skip("no server can be laid over this machine in a user namespace")
        script = script.replace("amd-ctk", " ".join(AMD_CTK))
        return run(environment, *namespace, *RUN, "mi210-4", "--", "sh", "-ec", script)

    return run_script


def test_a_user_can_enable_the_tracker_and_run_jobs(run_in):
    code, shown, said = run_in(
        AS_USER, "id -u; amd-ctk gpu-tracker enable; amd-ctk run --gpus=free:1 --wait -- echo ran; amd-ctk queue"
    )

    assert code == 0, said
    assert shown == "1000\nGPU Tracker has been enabled\nran\nNo job waits for GPUs\n"
    assert said.endswith("\nGPU 0\n")


def test_root_of_a_user_namespace_can_reserve_gpus(run_in):
    socket = "/run/amd-container-toolkit/gpus.socket"

    code, shown, said = run_in(
        AS_ROOT,
        "amd-ctk users allow everyone --gpus=2 >/dev/null 2>&1\n"
        f"amd-ctk gpu-tracker serve --listen {socket} >/dev/null & service=$!\n"
        "trap 'kill $service' EXIT\n"
        f"until [ -S {socket} ]; do kill -0 $service; sleep 0.1; done\n"
        "amd-ctk reserve 2 --for=1h --name=training",
    )

    assert code == 0, said
    assert shown == "GPU 2 reserved as training for 1 h 0 min\n"
