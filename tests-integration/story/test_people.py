"""People of a machine whose packages apt installed: systemd listens, starts the service, and starts it again.

Each test goes on where the one before ended.
"""

from __future__ import annotations

import re

import pytest

from support.stand import wait_until

pytestmark = pytest.mark.e2e

SOCKET = "/run/amd-container-toolkit/gpus.socket"
ENDING = "/run/amd-container-toolkit/ending"
PASSED_ON = "-e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION"
DETACHED = f"--detach --restart=always --network=none --stop-signal=KILL {PASSED_ON}"
STARTS = {"docker": "docker run --runtime=amd", "podman": "podman --runtime=/usr/bin/amd-container-runtime run"}


@pytest.fixture(scope="module")
def shared(stand):
    """Return a machine with four exclusive GPUs, and no user who may reserve one."""
    stand.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive")
    return stand


def is_active(stand, unit):
    return stand.run(f"systemctl is-active {unit}", check=False).strip()


def journal_of(stand):
    return stand.journal_of("amd-gpu-tracker")


def is_listed(stand, job):
    return job in stand.run("amd-ctk queue list")


def test_packages_enable_nothing(shared):
    assert shared.run("systemctl is-enabled amd-gpu-tracker.socket", check=False) == "disabled\n"
    assert is_active(shared, "amd-gpu-tracker.socket") == "inactive"


def test_a_dry_run_says_what_becomes_of_the_service(shared):
    said = shared.run("amd-ctk users allow everyone --gpus=3 --dry-run")

    assert said.endswith('+users = ["everyone:gpus=3"]\namd-gpu-tracker.socket would be enabled and started\n')
    assert is_active(shared, "amd-gpu-tracker.socket") == "inactive"


def test_the_first_request_starts_the_service(shared):
    shared.run("amd-ctk users allow everyone --gpus=3")
    assert is_active(shared, "amd-gpu-tracker.service") == "inactive"

    said = shared.as_user("alice", "amd-ctk run --gpus=free:3 -- sh -c 'id -un; echo $AMD_VISIBLE_DEVICES'")

    assert said == "GPUs 0, 1 and 2\nalice\n0,1,2\n"
    assert is_active(shared, "amd-gpu-tracker.service") == "active"


def test_a_service_that_is_killed_thirty_times_answers_every_time(shared):
    for _ in range(30):
        shared.run("systemctl kill --signal=KILL amd-gpu-tracker.service", check=False)
        assert shared.as_user("alice", "amd-ctk run --gpus=free:1 -- echo ran") == "GPU 0\nran\n"


def test_a_member_who_drops_the_group_in_a_user_namespace_has_no_more_than_the_group(shared):
    shared.run("groupadd lab; usermod --append --groups lab alice; amd-ctk users allow @lab --gpus=1")
    dropped = "unshare --user --map-root-user --map-auto setpriv --clear-groups"
    asking = "amd-ctk run --gpus=free:2 -- true"

    assert "lab" in shared.as_user("alice", "id --groups --name")
    assert "lab" not in shared.as_user("alice", f"{dropped} id --groups --name")
    assert "you may have 1 GPU at once" in shared.as_user("alice", asking, check=False)
    assert "in a user namespace groups may be missing" in shared.as_user("alice", f"{dropped} {asking}", check=False)
    assert shared.as_user("bob", asking) == "GPUs 0 and 1\n"
    shared.run("amd-ctk users deny @lab; gpasswd --delete alice lab")


def test_a_job_whose_time_is_over_is_warned_and_ended(shared):
    shared.run("amd-ctk users allow alice --gpus=3 --time=8s")

    said = shared.as_user(
        "alice", "amd-ctk run --gpus=0 --name=short -- sh -c 'trap \"\" TERM; exec sleep 86400' 2>&1", check=False
    )

    shared.run("amd-ctk users deny alice")
    over = "amd-ctk: job short has reached its time limit"
    warning = r"amd-ctk: job short reaches its time limit in \d s; it then gets SIGTERM, then SIGKILL"
    assert re.fullmatch(rf"GPU 0 for at most 8 s\n{warning}\n{over}\nKilled\n", said)
    assert shared.run("pgrep -x -U alice sleep", check=False) == ""


def test_a_service_that_is_killed_between_term_and_kill_finishes_what_it_began_and_ends_nothing_else(shared):
    shared.run("amd-ctk users allow alice --gpus=3 --time=8s")
    shared.as_user("bob", "amd-ctk run --gpus=1 --name=other -- sleep 601 >/dev/null 2>&1 &")
    shared.run("setpriv --reuid=alice --regid=alice --init-groups sleep 602 >/dev/null 2>&1 &")
    stubborn = 'trap "" TERM; while :; do sleep 1; done'
    shared.as_user("alice", f"amd-ctk run --gpus=0 --name=stubborn -- sh -c '{stubborn}' >/dev/null 2>&1 &")
    wait_until(lambda: "/stubborn: TERM to " in journal_of(shared))

    shared.run("systemctl kill --signal=KILL amd-gpu-tracker.service")

    assert shared.run(f"ls {ENDING}").count(".json") == 1
    assert is_listed(shared, "stubborn")
    wait_until(lambda: not is_listed(shared, "stubborn"))
    assert "/stubborn: KILL to " in journal_of(shared)
    assert shared.run("pgrep -x -U alice sh", check=False) == ""
    wait_until(lambda: shared.run(f"ls {ENDING}") == "")
    assert shared.run("pgrep -f -U bob '^sleep 601'; pgrep -f -U alice '^sleep 602'").count("\n") == 2
    shared.run("pkill -x -U bob sleep; pkill -x -U alice sleep")
    shared.run("amd-ctk users deny alice")
    wait_until(lambda: shared.run("amd-ctk queue list") == "No job waits for GPUs\n")


def test_an_idle_job_is_warned_and_kept_and_later_ended_for_who_waits(shared):
    shared.run("rm -f /run/alice /run/bob")
    shared.run("amd-ctk config set idle 3s")
    shared.as_user("alice", "amd-ctk run --gpus=0 --name=idle -- sleep 86400 >/run/alice 2>&1 &")
    wait_until(lambda: "the GPUs of idle have been idle for 3 s" in shared.run("cat /run/alice"))

    kept = shared.as_user("alice", "amd-ctk keep idle")
    shared.as_user("bob", "amd-ctk run --gpus=0 --wait --name=later -- echo ran >/run/bob 2>&1 &")
    wait_until(lambda: "ran\n" in shared.run("cat /run/bob"))

    shared.run("amd-ctk config unset idle")
    assert kept.splitlines()[-1] == "idle has no time limit"
    *warned, ended = [line for line in shared.run("cat /run/alice").splitlines() if line.startswith("amd-ctk:")]
    warning = (
        "amd-ctk: the GPUs of idle have been idle for 3 s; after another 3 s, it ends when someone waits for them"
        " ('amd-ctk keep idle' prevents that)"
    )
    # Once more after it was kept.
    assert warned == [warning, warning]
    assert re.fullmatch(
        r"amd-ctk: the GPUs of job idle were idle for \d+ s, and someone waits for them: it ends", ended
    )
    assert "and job later of user " in journal_of(shared)
    assert shared.run("pgrep -x -U alice sleep", check=False) == ""


@pytest.fixture(scope="module")
def engines(shared, image_archive):
    """Return the machine, on which Docker has the runtime, and Docker and Podman have the image busybox:local."""
    shared.put_image(image_archive)
    shared.run("amd-ctk runtime configure --runtime=docker --restart")
    shared.run("docker import /run/shared/image.tar busybox:local")
    return shared


def start_job_of_alice(stand, engine, script):
    """Start a job behind which alice is, with a container that its engine starts again whenever it ends."""
    run = f"{STARTS[engine]} --name=train {DETACHED} busybox:local sleep 86400"
    stand.run(
        f"export SUDO_UID=$(id -u alice); amd-ctk run --gpus=0 --name=train -- sh -c '{run}{script}' >/run/said 2>&1 &"
    )
    wait_until(lambda: state_of_container(stand, engine) == "running\n")


def state_of_container(stand, engine):
    return stand.run(f"{engine} inspect --format '{{{{.State.Status}}}}' train", check=False)


@pytest.mark.parametrize("engine", STARTS)
def test_a_container_that_nobody_uses_is_stopped_for_who_waits(engines, engine):
    engines.run("rm -f /run/bob; amd-ctk config set idle 3s")
    start_job_of_alice(engines, engine, "; exec sleep 86400")

    engines.as_user("bob", "amd-ctk run --gpus=0 --wait --name=later -- echo ran >/run/bob 2>&1 &")
    wait_until(lambda: "ran\n" in engines.run("cat /run/bob"))

    engines.run("amd-ctk config unset idle")
    assert state_of_container(engines, engine) == "exited\n"
    assert f"{engine} stop" in journal_of(engines)
    engines.run(f"{engine} rm --force train")


@pytest.mark.parametrize("engine", STARTS)
def test_a_container_whose_time_is_over_is_stopped_for_good(engines, engine):
    # The service may not write the engine's files, and goes after a minute where nobody needs it.
    engines.run("amd-ctk users allow alice --gpus=3 --time=65s")
    start_job_of_alice(engines, engine, "")

    wait_until(lambda: state_of_container(engines, engine) == "exited\n")

    engines.run("amd-ctk users deny alice")
    # Podman stops a container itself, so it needs what the service may not write.
    assert {"docker": ": docker stop", "podman": "systemd-run --quiet --collect --wait podman stop"}[
        engine
    ] in journal_of(engines)
    engines.run("sleep 2")
    assert state_of_container(engines, engine) == "exited\n"
    engines.run(f"{engine} rm --force train")


def test_a_waiter_keeps_its_place_while_the_service_is_killed(shared):
    shared.run("rm -f /run/bob")
    shared.as_user("alice", "amd-ctk reserve free:3 --for=1h --name=held")
    job = "sh -c 'echo $AMD_VISIBLE_DEVICES'"
    shared.as_user("bob", f"amd-ctk run --gpus=free:2 --wait --name=later -- {job} >/run/bob 2>&1 &")
    wait_until(lambda: "waiting for 2 GPUs" in shared.run("cat /run/bob"))
    for _ in range(10):
        shared.run("systemctl kill --signal=KILL amd-gpu-tracker.service", check=False)

    listed = shared.as_user("alice", "amd-ctk queue list")
    shared.as_user("alice", "amd-ctk release held")

    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["Person", "Name"],
        ["alice", "held"],
        [],
        ["Place", "Person"],
        ["1", "bob"],
    ]
    wait_until(lambda: shared.run("cat /run/bob").endswith("\n0,1\n"))


def test_the_journal_has_what_happened(shared):
    journal = journal_of(shared)

    assert "granted: job later of user " in journal
    assert "released: " in journal


def test_the_journal_finds_lines_by_gpu_user_job_and_verdict(shared):
    shared.as_user("alice", "amd-ctk run --gpus=3 --name=found -- true")
    uid = shared.run("id -u alice").strip()

    found = shared.run(f"journalctl -o cat -u amd-gpu-tracker GPU=3 USER={uid} JOB=found VERDICT=granted")
    assert found == f"granted: job found of user {uid}: GPUs [3]\n"
    wait_until(
        lambda: shared.run(f"journalctl -o cat GPU=3 USER={uid} JOB=found VERDICT=ended") == f"ended: {uid}/found\n"
    )


def test_a_denied_user_has_nothing_and_running_jobs_go_on(shared):
    shared.as_user("alice", "amd-ctk run --gpus=0 --name=long -- sleep 86400 >/dev/null 2>&1 &")
    wait_until(lambda: is_listed(shared, "long"))

    said = shared.run("amd-ctk users deny --all --dry-run")
    assert said.endswith(
        "amd-gpu-tracker.socket would be disabled, and amd-gpu-tracker.service stopped\n",
    )
    assert is_active(shared, "amd-gpu-tracker.service") == "active"
    shared.run("amd-ctk users deny --all")
    shared.run("systemctl disable --now amd-gpu-tracker.socket; systemctl stop amd-gpu-tracker.service")

    assert "needs root" in shared.as_user("bob", "amd-ctk run --gpus=0 -- true", check=False)
    assert is_listed(shared, "long")
    shared.run("pkill -x -U alice sleep")
    wait_until(lambda: not is_listed(shared, "long"))
    assert shared.run(f"ls {SOCKET}", check=False).startswith("ls: cannot access")


def test_removed_packages_end_the_wait_and_no_job(shared):
    shared.run("rm -f /run/bob; amd-ctk users allow everyone")
    shared.as_user("alice", "amd-ctk run --gpus=0 --name=long -- sleep 86400 >/dev/null 2>&1 &")
    wait_until(lambda: is_listed(shared, "long"))
    shared.as_user("bob", "sh -c 'amd-ctk run --gpus=0 --wait --name=later -- true; echo $?' >/run/bob 2>&1 &")
    wait_until(lambda: "waiting for 1 GPU" in shared.run("cat /run/bob"))

    shared.apt("remove 'amd*'")

    wait_until(lambda: "\n12\n" in shared.run("cat /run/bob"))
    assert shared.run("cat /run/bob").splitlines()[1:] == [
        "the service that gives out GPUs does not answer; waiting for it",
        "the service that gives out GPUs has stopped (see 'amd-ctk queue', and try again)",
        "12",
    ]
    assert is_active(shared, "amd-gpu-tracker.socket") == "inactive"
    shared.run("pgrep -x -U alice sleep")
    shared.install()
    assert is_listed(shared, "long")
    shared.run("pkill -x -U alice sleep")
    wait_until(lambda: shared.run("amd-ctk queue list") == "No job waits for GPUs\n")
