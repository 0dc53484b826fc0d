"""People of a Debian 13 that boots, with the packages: systemd listens, starts the service, and starts it again."""

from __future__ import annotations

import re
import shutil
import time

import pytest

from amdgpu_discovery.simulate import build_host
from support.debian_root import booted_root
from support.debs import META_PACKAGE, build_debs
from support.installed import require_root
from support.podman import OF_BOOTED_SYSTEM
from support.system import System

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

ROOT = "/run/shared/host"
SOCKET = f"{ROOT}/run/amd-container-toolkit/gpus.socket"
# The units serve a simulated host; everything else in them stays in force.
DROP_INS = {
    "socket": f"[Socket]\nListenStream=\nListenStream={SOCKET}\n",
    "service": f"[Service]\nEnvironment=AMD_CTK_HOST_ROOT={ROOT}\nReadWritePaths=/run/shared\n",
}
RUNTIME = "/usr/local/bin/amd-container-runtime"
PASSED_ON = "-e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION"
SECONDS = 90


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """Return a system with eight exclusive MI210, the toolkit, and two people."""
    require_root()
    system = System(tmp_path_factory.mktemp("people") / "system", booted_root())
    try:
        build_host(system.shared / "host", "mi210-8")
        for deb in build_debs(tmp_path_factory.mktemp("debs")).glob("*.deb"):
            if not deb.name.startswith(META_PACKAGE):
                shutil.copy(deb, system.shared)
        system.run("dpkg --force-unsafe-io --install /run/shared/*.deb")
        for kind, text in DROP_INS.items():
            system.write(f"/etc/systemd/system/amd-gpu-tracker.{kind}.d/simulated.conf", text)
        system.run("useradd alice; useradd bob; chmod 755 /run/shared; systemctl daemon-reload")
        as_root(system, "gpu-tracker enable; amd-ctk gpu-tracker all exclusive")
        yield system
    finally:
        system.stop()


def as_root(system, words, *, check=True):
    return system.run(f"export AMD_CTK_HOST_ROOT={ROOT}; amd-ctk {words}", check=check)


def as_user(system, user, words, *, check=True):
    command = f"setpriv --reuid={user} --regid={user} --init-groups env AMD_CTK_HOST_ROOT={ROOT} amd-ctk {words}"
    return system.run(command, check=check)


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_active(system, unit):
    return system.run(f"systemctl is-active {unit}", check=False).strip()


def journal_of(system):
    return system.run("journalctl --unit=amd-gpu-tracker --output=cat")


def test_packages_enable_nothing(system):
    assert system.run("systemctl is-enabled amd-gpu-tracker.socket", check=False) == "disabled\n"
    assert is_active(system, "amd-gpu-tracker.socket") == "inactive"


def test_the_first_request_starts_the_service(system):
    as_root(system, "users allow everyone --gpus=6")
    # On a simulated host the command does not touch systemd.
    system.run("systemctl enable --now amd-gpu-tracker.socket")
    assert is_active(system, "amd-gpu-tracker.service") == "inactive"

    said = as_user(system, "alice", "run --gpus=free:6 -- sh -c 'id -un; echo $AMD_VISIBLE_DEVICES'")

    assert said == "GPUs 0, 1, 2, 3, 4 and 5\nalice\n0,1,2,3,4,5\n"
    assert is_active(system, "amd-gpu-tracker.service") == "active"


def test_a_service_that_is_killed_thirty_times_answers_every_time(system):
    for _ in range(30):
        system.run("systemctl kill --signal=KILL amd-gpu-tracker.service", check=False)
        assert as_user(system, "alice", "run --gpus=free:1 -- echo ran") == "GPU 0\nran\n"


def test_a_job_whose_time_is_over_is_warned_and_ended(system):
    as_root(system, "users allow alice --gpus=6 --time=8s")

    said = as_user(system, "alice", "run --gpus=0 --name=short -- sh -c 'trap \"\" TERM; sleep 600' 2>&1", check=False)

    as_root(system, "users deny alice")
    over = "amd-ctk: the time of job short is over"
    warning = rf"{over} in \d s; it then gets SIGTERM, then SIGKILL"
    assert re.fullmatch(rf"GPU 0 for at most 8 s\n{warning}\n{over}\nKilled\n", said)
    assert system.run("pgrep -x -U alice sleep", check=False) == ""


def test_a_service_that_is_killed_between_term_and_kill_finishes_what_it_began_and_ends_nothing_else(system):
    as_root(system, "users allow alice --gpus=6 --time=8s")
    as_user(system, "bob", "run --gpus=1 --name=other -- sleep 601 >/dev/null 2>&1 &")
    system.run("setpriv --reuid=alice --regid=alice --init-groups sleep 602 >/dev/null 2>&1 &")
    stubborn = 'trap "" TERM; while :; do sleep 1; done'
    as_user(system, "alice", f"run --gpus=0 --name=stubborn -- sh -c '{stubborn}' >/dev/null 2>&1 &")
    wait_until(lambda: "/stubborn: TERM to " in journal_of(system))

    system.run("systemctl kill --signal=KILL amd-gpu-tracker.service")

    assert system.run(f"ls {ROOT}/run/amd-container-toolkit/ending").count(".json") == 1
    assert "stubborn" in as_root(system, "queue list")
    wait_until(lambda: "stubborn" not in as_root(system, "queue list"))
    assert "/stubborn: KILL to " in journal_of(system)
    assert system.run("pgrep -x -U alice sh", check=False) == ""
    wait_until(lambda: system.run(f"ls {ROOT}/run/amd-container-toolkit/ending") == "")
    assert system.run("pgrep -f -U bob '^sleep 601'; pgrep -f -U alice '^sleep 602'").count("\n") == 2
    system.run("pkill -x -U bob sleep; pkill -x -U alice sleep")
    as_root(system, "users deny alice")
    wait_until(lambda: as_root(system, "queue list") == "No job waits for GPUs\n")


def test_an_idle_job_is_warned_and_kept_and_later_ended_for_who_waits(system):
    system.run("rm -f /run/alice /run/bob")
    as_root(system, "config set idle 3s")
    as_user(system, "alice", "run --gpus=0 --name=idle -- sleep 600 >/run/alice 2>&1 &")
    wait_until(lambda: "nobody used the GPUs of idle for 3 s" in system.run("cat /run/alice"))

    kept = as_user(system, "alice", "keep idle")
    as_user(system, "bob", "run --gpus=0 --wait --name=later -- echo ran >/run/bob 2>&1 &")
    wait_until(lambda: "ran\n" in system.run("cat /run/bob"))

    as_root(system, "config unset idle")
    assert kept.splitlines()[-1] == "idle has no time limit"
    *warned, ended = [line for line in system.run("cat /run/alice").splitlines() if line.startswith("amd-ctk:")]
    warning = (
        "amd-ctk: nobody used the GPUs of idle for 3 s; after as much again, it is ended when somebody waits for them"
        " ('amd-ctk keep idle' prevents that)"
    )
    # Once more after it was kept.
    assert warned == [warning, warning]
    assert re.fullmatch(
        r"amd-ctk: nobody used the GPUs of job idle for \d+ s, and somebody waits for them: it is ended", ended
    )
    assert "and job later of user " in journal_of(system)
    assert system.run("pgrep -x -U alice sleep", check=False) == ""


@pytest.fixture(scope="module")
def podman(system, image_archive):
    """Return the words that start a container of Podman with the GPUs of a job, which it starts again at its end."""
    shutil.copy(image_archive, system.shared / "image.tar")
    for path, text in OF_BOOTED_SYSTEM.items():
        system.write(path, text)
    system.run("podman import --quiet /run/shared/image.tar busybox:local")
    system.write(RUNTIME, f'#!/bin/sh\nexport AMD_CTK_HOST_ROOT={ROOT}\nexec /usr/bin/amd-container-runtime "$@"\n')
    system.run(f"chmod 755 {RUNTIME}")
    return f"podman --runtime={RUNTIME} run --detach --restart=always --network=none --stop-signal=KILL {PASSED_ON}"


def test_a_container_of_podman_that_nobody_uses_is_stopped_for_who_waits(system, podman):
    system.run("rm -f /run/bob")
    as_root(system, "config set idle 3s")
    job = f"sh -c '{podman} --name=idle busybox:local sleep 600; exec sleep 600'"
    system.run(
        f"export AMD_CTK_HOST_ROOT={ROOT} SUDO_UID=$(id -u alice); "
        f"amd-ctk run --gpus=0 --name=idle -- {job} >/run/said 2>&1 &"
    )
    wait_until(lambda: "Up" in system.run("podman ps --all"))

    as_user(system, "bob", "run --gpus=0 --wait --name=later -- echo ran >/run/bob 2>&1 &")
    wait_until(lambda: "ran\n" in system.run("cat /run/bob"))

    as_root(system, "config unset idle")
    assert "Exited" in system.run("podman ps --all")
    system.run("podman rm --force idle")


def test_a_container_of_podman_whose_time_is_over_is_stopped_for_good(system, podman):
    # The service may not write Podman's files, and goes after a minute where nobody needs it.
    as_root(system, "users allow alice --gpus=6 --time=65s")
    system.run(
        f"export AMD_CTK_HOST_ROOT={ROOT} SUDO_UID=$(id -u alice); "
        f"amd-ctk run --gpus=0 --name=short -- sh -c '{podman} busybox:local sleep 600' >/run/said 2>&1"
    )

    wait_until(lambda: "Exited" in system.run("podman ps --all"))

    as_root(system, "users deny alice")
    journal = journal_of(system)
    assert "systemd-run --quiet --collect --wait podman stop" in journal
    assert "Exited" in system.run("podman ps --all")


def test_who_waits_keeps_the_place_while_the_service_is_killed(system):
    system.run("rm -f /run/bob")
    as_user(system, "alice", "reserve free:6 --for=1h --name=held")
    as_user(
        system, "bob", "run --gpus=free:4 --wait --name=later -- sh -c 'echo $AMD_VISIBLE_DEVICES' >/run/bob 2>&1 &"
    )
    wait_until(lambda: "waiting for 4 GPUs" in system.run("cat /run/bob"))
    for _ in range(10):
        system.run("systemctl kill --signal=KILL amd-gpu-tracker.service", check=False)

    listed = as_user(system, "alice", "queue list")
    as_user(system, "alice", "release held")

    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["Person", "Name"],
        ["alice", "held"],
        [],
        ["Place", "Person"],
        ["1", "bob"],
    ]
    wait_until(lambda: system.run("cat /run/bob").endswith("\n0,1,2,3\n"))


def test_the_journal_has_what_happened(system):
    journal = journal_of(system)

    assert "granted: job later of user " in journal
    assert "released: " in journal


def test_who_is_denied_has_nothing_and_running_jobs_go_on(system):
    as_user(system, "alice", "run --gpus=0 --name=long -- sleep 600 >/dev/null 2>&1 &")
    wait_until(lambda: "long" in as_root(system, "queue list"))

    as_root(system, "users deny --all")
    system.run("systemctl disable --now amd-gpu-tracker.socket; systemctl stop amd-gpu-tracker.service")

    assert "needs root" in as_user(system, "bob", "run --gpus=0 -- true", check=False)
    assert "long" in as_root(system, "queue list")
    system.run("pkill -x -U alice sleep")
    wait_until(lambda: "long" not in as_root(system, "queue list"))
    assert system.run(f"ls {SOCKET}", check=False).startswith("ls: cannot access")


def test_removed_packages_end_the_wait_and_no_job(system):
    # The root file system of these tests keeps packages from stopping what they started.
    system.run("rm -f /usr/sbin/policy-rc.d")
    system.run("rm -f /run/bob")
    as_root(system, "users allow everyone")
    system.run("systemctl enable --now amd-gpu-tracker.socket")
    as_user(system, "alice", "run --gpus=0 --name=long -- sleep 600 >/dev/null 2>&1 &")
    wait_until(lambda: "long" in as_root(system, "queue list"))
    bob = "setpriv --reuid=bob --regid=bob --init-groups env AMD_CTK_HOST_ROOT=/run/shared/host"
    job = f"{bob} amd-ctk run --gpus=0 --wait --name=later -- true >/run/bob 2>&1"
    system.run(f"{{ {job}; echo $? >>/run/bob; }} >/dev/null 2>&1 &")
    wait_until(lambda: "waiting for 1 GPU" in system.run("cat /run/bob"))

    system.run(
        f"export AMD_CTK_HOST_ROOT={ROOT}; dpkg --remove $(dpkg-query --show --showformat='${{Package}}\\n' 'amd*')"
    )

    wait_until(lambda: "\n12\n" in system.run("cat /run/bob"))
    assert system.run("cat /run/bob").splitlines()[1:] == [
        "the service that gives out GPUs is gone (see 'amd-ctk queue list', and try again)",
        "12",
    ]
    assert system.run("systemctl list-units --all --no-legend 'amd-*'") == ""
    system.run("pgrep -x -U alice sleep")
    system.run("dpkg --force-unsafe-io --install /run/shared/*.deb")
    assert "long" in as_root(system, "queue list")
    system.run("pkill -x -U alice sleep")
    wait_until(lambda: as_root(system, "queue list") == "No job waits for GPUs\n")
