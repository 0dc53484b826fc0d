"""The life of a container under --runtime=amd is the one it has under runc."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.docker import IMAGE
from support.installed import engine_program, our_program
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

GPU_0 = ["/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD128"]


def seen_by_exec(docker, container):
    return paths(parse_seen(docker("exec", container, "list-gpus").stdout))


def status(docker, container):
    return docker("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", container).stdout.strip()


def test_the_exit_code_is_the_programs(docker):
    asking = ("--rm", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0")

    assert docker("run", *asking, IMAGE, "sh", "-c", "exit 42", check=False).returncode == 42


def test_standard_input_reaches_the_program(run):
    assert run("0", "sh", "-c", "echo said; cat", options=("--interactive",)) == "said\n"


def test_a_terminal_is_given(run):
    assert run("0", "tty", options=("--tty",)).strip() == "/dev/pts/0"


def test_exec_runs_inside_and_hands_its_exit_code_on(docker, start):
    container = start("0")

    assert seen_by_exec(docker, container) == GPU_0
    assert docker("exec", container, "sh", "-c", "exit 7", check=False).returncode == 7


def test_a_signal_reaches_the_program(docker, start):
    container = start("0", "--stop-signal=USR1", command=("sh", "-c", "trap 'exit 5' USR1; sleep 600 & wait"))

    docker("stop", container)

    assert status(docker, container) == "exited 5"


def test_stop_and_start_keep_the_nodes(docker, start):
    container = start("0")

    docker("stop", "--time=0", container)
    stopped = status(docker, container)
    docker("start", container)

    assert stopped == "exited 137"
    assert seen_by_exec(docker, container) == GPU_0


def test_restart_keeps_the_nodes(docker, start):
    container = start("0")

    docker("restart", "--time=0", container)
    docker("restart", "--time=0", container)

    assert status(docker, container) == "running 0"
    assert seen_by_exec(docker, container) == GPU_0


def test_a_restart_policy_keeps_the_nodes(docker, start):
    container = start("0", "--restart=on-failure:2", command=("sh", "-c", "list-gpus; exit 3"))

    while status(docker, container) != "exited 3":
        docker("wait", container)

    assert paths(parse_seen(docker("logs", container).stdout)) == GPU_0 * 3


def test_pause_and_unpause_work(docker, start):
    container = start("0")

    docker("pause", container)
    paused = status(docker, container)
    docker("unpause", container)

    assert paused == "paused 0"
    assert seen_by_exec(docker, container) == GPU_0


def test_an_update_of_the_limits_keeps_the_gpus(docker, start):
    container = start("0")

    docker("update", "--cpu-shares=512", container)

    assert {node.access for node in parse_seen(docker("exec", container, "list-gpus").stdout)} == {"opens"}


def test_a_running_container_is_removed_by_force(docker, start):
    container = start("0")

    docker("rm", "--force", container)

    assert container not in docker("ps", "--all", "--quiet", "--no-trunc").stdout


def test_create_and_start_apart_give_the_gpus(docker):
    container = docker("create", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0", IMAGE, "list-gpus").stdout.strip()

    seen = docker("start", "--attach", container).stdout

    assert paths(parse_seen(seen)) == GPU_0
    docker("rm", container)


@pytest.mark.parametrize(
    "options",
    [("--init",), ("--user=1000:1000",), ("--read-only",), ("--cap-drop=ALL",), ("--network=host",), ("--pid=host",)],
    ids=" ".join,
)
def test_an_option_of_the_engine_goes_with_gpus(see, options):
    nodes = see("0", *options)

    assert paths(nodes) == GPU_0
    assert {node.access for node in nodes} == {"opens"}


def test_a_privileged_container_has_its_gpus_too(start_docker, tmp_path, amd_host):
    docker = start_docker(f"{amd_host.path}")
    runc = write_capped_runc(tmp_path / "runc")
    choice = [our_program("amd-ctk"), "config", "set", "low-level-runtime", runc]
    subprocess.run(choice, env={"AMD_CTK_HOST_ROOT": amd_host.path}, check=True, capture_output=True)

    asking = ("--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0", "--privileged")
    nodes = parse_seen(docker.output(*asking, command=("list-gpus",)))

    # A privileged container also sees what GPUs the machine itself has.
    assert set(GPU_0) <= set(paths(nodes))
    assert {node.access for node in nodes} == {"opens"}


def write_capped_runc(program):
    """Write a runc that grants no capability that this machine's root lacks; with plain runc, too, none would start."""
    program.write_text(CAPPED_RUNC.format(python=sys.executable, runc=engine_program("runc")))
    program.chmod(0o755)
    return program


CAPPED_RUNC = """#!{python}
import json, os, sys
from pathlib import Path

config = Path("config.json")
bounding = int(Path("/proc/self/status").read_text().partition("CapBnd:")[2].split()[0], 16)
if "create" in sys.argv and not bounding >> 24 & 1:  # CAP_SYS_RESOURCE
    spec = json.loads(config.read_text())
    # Docker 20 lists it in every set, Docker 26 has an empty one.
    for granted in spec["process"]["capabilities"].values():
        granted[:] = [name for name in granted if name != "CAP_SYS_RESOURCE"]
    config.write_text(json.dumps(spec))
os.execv("{runc}", ["runc", *sys.argv[1:]])
"""


def test_a_container_without_gpus_is_what_runc_makes_of_it(docker):
    look = "ls /dev; sort /proc/mounts; grep -E '^(Uid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; env"

    under_amd, under_runc = (
        docker.output(f"--runtime={name}", "--hostname=same", command=("sh", "-c", look)).splitlines()
        for name in ("amd", "runc")
    )

    # Each container has layers and directories of its own.
    assert [line for line in under_amd if "/tmp/" not in line] == [line for line in under_runc if "/tmp/" not in line]
