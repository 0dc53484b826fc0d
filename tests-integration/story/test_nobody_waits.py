"""Real accounts on a booted machine: the first rule, the line, jobs in the background, and a service that fails.

Each test goes on where the one before ended.
"""

from __future__ import annotations

from shlex import quote

import pytest

from support.stand import wait_until

# Some wait for minutes: a moment has no seconds, and a loop of crashes takes a while.
pytestmark = [pytest.mark.e2e, pytest.mark.story]

BROKEN = "/etc/systemd/system/amd-gpu-tracker.service.d/broken.conf"
# On a busy machine, the 50 starts of the unit take longer than the 20 seconds in which a client comes back.
BREAK = "[Unit]\nStartLimitBurst=10\n[Service]\nExecStart=\nExecStart=/bin/false\n"
START_AGAIN = "sudo systemctl reset-failed amd-gpu-tracker.service && sudo systemctl start amd-gpu-tracker.socket"
FAILED = f"the service that gives out GPUs has failed (the administrator starts it again: {START_AGAIN})\n"


def said_to(stand, user, command):
    """Return what a command says to a user, and its exit code in the last line."""
    return stand.as_user(user, f"sh -c {quote(f'{command}; echo $?')} 2>&1")


def begin(stand, user, words):
    """Start a command of a user in the background; its output is in /run/said-USER."""
    stand.run(f"install --owner={user} /dev/null /run/said-{user}")
    stand.as_user(user, f"sh -c {quote(f'amd-ctk {words} >/run/said-{user} 2>&1 &')}")


def hear(stand, user):
    return stand.run(f"cat /run/said-{user}")


def listed(stand):
    """Return person, name and numbers of those that have GPUs, and person and name of those that wait."""
    lines = [line.split() for line in stand.run("amd-ctk queue").splitlines()]
    return [(words[0], words[1]) for words in lines if len(words) > 3 and words[0] in ("alice", "bob")] + [
        (words[1], f"{words[2]} waits") for words in lines if words and words[0].isdecimal()
    ]


def test_the_first_rule_makes_a_fresh_host_a_shared_one_and_a_dry_run_only_says_so(stand):
    steps = stand.run("amd-ctk users allow everyone --gpus=3 --dry-run")
    assert "GPU Tracker is disabled\n" in stand.run("amd-ctk gpu-tracker status", check=False)

    said = stand.run("amd-ctk users allow everyone --gpus=3")

    assert steps.splitlines()[-1] == "amd-gpu-tracker.socket would be enabled and started"
    assert said == (
        "GPU Tracker has been enabled\n"
        "GPUs [0 1 2 3] have been made exclusive\n"
        "amd-gpu-tracker.socket has been enabled\n"
        "everyone may reserve GPUs, at most 3 at once\n"
    )


def test_nobody_waits_for_a_gpu_that_stands_idle_behind_one_who_waits_for_another(stand):
    begin(stand, "alice", "run --gpus=2 --name=two -- sleep 86400")
    wait_until(lambda: listed(stand) == [("alice", "two")])
    begin(stand, "bob", "run --gpus=1-2 --wait --name=both -- echo ran")
    wait_until(lambda: listed(stand) == [("alice", "two"), ("bob", "both waits")])

    assert said_to(stand, "alice", "amd-ctk run --gpus=free:1 --wait -- echo ran") == "GPU 0\nran\n0\n"
    assert stand.run("amd-ctk run --gpus=free:1 --wait -- echo ran 2>&1") == "GPU 0\nran\n"
    assert said_to(stand, "bob", "amd-ctk reserve free:1 --for=1h --name=held") == (
        "GPU 0 reserved as held for 1 h 0 min\n0\n"
    )
    assert said_to(stand, "bob", "amd-ctk end held") == "Ending held\n0\n"


def test_a_reservation_that_waits_begins_after_those_before_it(stand):
    begin(stand, "alice", "reserve 2 --for=1h --wait --name=later")
    wait_until(lambda: ("alice", "later waits") in listed(stand))

    assert said_to(stand, "alice", "amd-ctk end two") == "Ending two\n0\n"

    wait_until(lambda: listed(stand) == [("alice", "later")])
    given, ran = hear(stand, "bob").splitlines()[-2:]
    assert (given.partition(" after ")[0], ran) == ("GPUs 1 and 2", "ran")
    wait_until(lambda: "\nGPU 2 reserved as later for 1 h 0 min after " in hear(stand, "alice"))
    said_to(stand, "alice", "amd-ctk end later")


def test_a_job_in_the_background_needs_a_session_and_says_when_it_ends(stand):
    refused = said_to(stand, "alice", "amd-ctk run --gpus=free:1 --detach --name=night -- sleep 86400")
    assert refused == (
        "--detach needs the user's own systemd, which cron and sudo do not have"
        " (log in as the user, or leave out --detach)\n2\n"
    )

    job = "sh -c 'echo began; exec sleep 86400'"
    stand.run("install --owner=alice /dev/null /run/said-alice")
    script = f"cd; amd-ctk run --gpus=free:1 --detach --name=night -- {job} >/run/said-alice 2>&1; exec sleep 86400"
    session = stand.log_in("alice", script)

    wait_until(lambda: "began" in stand.run("cat /home/alice/night.log", check=False))
    assert hear(stand, "alice") == (
        "night ends when you log out ('loginctl enable-linger' lets it go on)\n"
        "night runs in the background; its output is in /home/alice/night.log\n"
    )
    assert listed(stand) == [("alice", "night")]
    stand.run(f"systemctl stop {session}")
    wait_until(lambda: listed(stand) == [])


def test_an_account_that_has_expired_starts_nothing(stand):
    stand.run("chage --expiredate=2020-01-01 bob")
    uid = stand.run("id -u bob").strip()

    refused = said_to(stand, "bob", "amd-ctk run --gpus=free:1 -- true")

    assert refused == f"the account {uid} has expired (ask the administrator)\n3\n"
    stand.run("chage --expiredate=-1 bob")
    assert said_to(stand, "bob", "amd-ctk run --gpus=free:1 -- true") == "GPU 0\n0\n"


def test_a_service_that_crashes_at_each_start_fails_and_who_waits_reads_so(stand):
    stand.write(BROKEN, BREAK)
    stand.run("systemctl daemon-reload; systemctl stop amd-gpu-tracker.service 2>&1")

    waited = said_to(stand, "alice", "amd-ctk run --gpus=free:1 --wait=1h -- echo ran")

    silent = "the service that gives out GPUs does not answer; waiting for it\n"
    assert waited.removeprefix(silent) == f"{FAILED}14\n"
    units = "amd-gpu-tracker.service amd-gpu-tracker.socket"
    assert stand.run(f"systemctl is-failed {units}") == "failed\nfailed\n"
    assert said_to(stand, "bob", "amd-ctk reserve free:1 --for=1h --name=held") == f"{FAILED}14\n"
    shown = f"the service that gives out GPUs has failed: '{START_AGAIN}' starts it again"
    assert shown in stand.as_user("bob", "amd-ctk status 2>&1").splitlines()
    assert f"fix: {START_AGAIN}\n" in stand.run("amd-ctk doctor --only=sharing", check=False)


def test_the_command_that_people_read_starts_the_service_again(stand):
    stand.run(f"rm {BROKEN}; systemctl daemon-reload")

    stand.run(START_AGAIN.replace("sudo ", ""))

    assert said_to(stand, "alice", "amd-ctk run --gpus=free:1 -- echo ran") == "GPU 0\nran\n0\n"


def test_a_reservation_for_later_begins_after_a_power_cut_though_nobody_asks(stand):
    later = "amd-ctk reserve 3 --for=1h --name=demo --at=\"$(date --date='3 minutes' '+%Y-%m-%d %H:%M')\""
    hint = "3 is GPU number 3; for 3 free GPUs write free:3\n"
    assert said_to(stand, "alice", later).startswith(f"{hint}GPU 3 reserved as demo from ")

    stand.cut_power()

    wait_until(lambda: "demo@.json" in stand.run("ls /run/amd-container-toolkit/leases", check=False))
    assert listed(stand) == [("alice", "demo")]
