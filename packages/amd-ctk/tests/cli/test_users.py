"""amd-ctk users: who may reserve GPUs, as processes on a simulated host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.people import Permission
from amd_gpu_sharing.rules.permissions import find_terms
from amdgpu_discovery.host import Host

ONLY_ROOT = "Only root may reserve GPUs\n"


@pytest.fixture
def served(tracked: Host) -> Host:
    Path(tracked.path("/etc/amd-container-toolkit")).mkdir(parents=True, exist_ok=True)
    return tracked


def test_at_first_nobody_may(served: Host, amd_ctk) -> None:
    assert amd_ctk("users", "list").stdout == ONLY_ROOT
    assert find_terms(served).permissions == ()


def test_a_user_a_group_and_everyone_are_allowed_by_number(served: Host, amd_ctk) -> None:
    amd_ctk("config", "set", "gpu-groups", "notebooks=0-1")
    said = [
        amd_ctk("users", "allow", "daemon", "--gpus=2"),
        amd_ctk("users", "allow", "@daemon", "--groups=notebooks", "--time=1d"),
        amd_ctk("users", "allow", "everyone"),
    ]

    assert [(answer.returncode, answer.stdout, answer.stderr) for answer in said] == [
        (0, "daemon (user 1) may reserve GPUs, at most 2 at once\n", ""),
        (0, "@daemon (group 1) may reserve GPUs, for at most 24h, of notebooks\n", ""),
        (0, "everyone may reserve GPUs\n", ""),
    ]
    assert amd_ctk("users", "list").stdout == (
        "Who       Number  GPUs at once  Time      Groups\n"
        "daemon    1       2             no limit  all GPUs\n"
        "@daemon   1       no limit      24h       notebooks\n"
        "everyone          no limit      no limit  all GPUs\n"
    )
    assert find_terms(served).permissions == (
        Permission(who="daemon", number=1, gpus=2),
        Permission(who="@daemon", number=1, seconds=86400, groups=("notebooks",)),
        Permission(who="everyone"),
    )


def test_a_rule_that_ends_is_listed_with_its_date_and_zone(served: Host, amd_ctk) -> None:
    utc = {"TZ": "UTC"}
    allowed = amd_ctk("users", "allow", "daemon", "--gpus=1", "--until", "2100-12-04 18:00", **utc)

    assert (allowed.returncode, allowed.stdout) == (
        0,
        "daemon (user 1) may reserve GPUs, at most 1 at once, until Sat 2100-12-04 18:00 UTC\n",
    )
    assert amd_ctk("users", "list", **utc).stdout == (
        "Who     Number  GPUs at once  Time      Groups    Until\n"
        "daemon  1       1             no limit  all GPUs  Sat 2100-12-04 18:00 UTC\n"
    )
    assert json.loads(amd_ctk("users", "list", "--json").stdout)["users"][0]["until"] == 4131626400


def test_a_rule_that_has_ended_is_listed_and_allows_nothing(served: Host, amd_ctk) -> None:
    amd_ctk("config", "set", "users", "daemon=1:until=20260101T0000Z")

    assert amd_ctk("users", "list", TZ="UTC").stdout.endswith("Thu 2026-01-01 00:00 UTC (over)\n")
    assert find_terms(served).permissions == ()


def test_a_permission_that_cannot_be_written_is_not_reported(served: Host, limited_amd_ctk) -> None:
    Path(served.path("/etc/amd-container-toolkit")).chmod(0o555)

    answer = limited_amd_ctk("users", "allow", "everyone")

    assert (answer.returncode, answer.stdout) == (5, "")
    assert "config.toml cannot be written: access is refused" in answer.stderr


def test_a_new_rule_for_a_user_replaces_the_earlier_one(served: Host, amd_ctk) -> None:
    amd_ctk("users", "allow", "daemon", "--gpus=2")
    amd_ctk("users", "allow", "1", "--gpus=3")

    assert json.loads(amd_ctk("users", "list", "--json").stdout) == {
        "users": [
            {"who": "daemon", "number": 1, "gpus": 3, "together": False, "seconds": None, "groups": [], "until": None}
        ],
        "require_reservation": False,
    }


def test_a_new_rule_replaces_one_that_has_the_number_of_another_machine(served: Host, amd_ctk) -> None:
    amd_ctk("config", "set", "users", "daemon=4711:gpus=2", "@daemon=4712", "everyone")

    amd_ctk("users", "allow", "daemon", "--gpus=3")

    assert amd_ctk("users", "list").stdout == (
        "Who       Number  GPUs at once  Time      Groups\n"
        "@daemon   4712    no limit      no limit  all GPUs\n"
        "everyone          no limit      no limit  all GPUs\n"
        "daemon    1       3             no limit  all GPUs\n"
    )


def test_a_denied_user_is_no_longer_listed(served: Host, amd_ctk) -> None:
    amd_ctk("users", "allow", "daemon")
    amd_ctk("users", "allow", "@daemon")

    assert amd_ctk("users", "deny", "daemon").stdout == "The rule for daemon is removed\n"
    assert "@daemon" in amd_ctk("users", "list").stdout
    again = amd_ctk("users", "deny", "daemon")
    still = "the rule for @daemon may still allow daemon: 'sudo amd-ctk users allow daemon --gpus=0' excludes daemon"
    assert (again.returncode, again.stderr) == (0, f"there is no rule for daemon ({still})\n")
    assert amd_ctk("users", "deny", "--all").stdout == ONLY_ROOT
    assert amd_ctk("users", "list").stdout == ONLY_ROOT
    assert amd_ctk("users", "deny", "--all").returncode == 0


def test_a_user_whom_the_system_does_not_know_any_more_can_be_denied(served: Host, amd_ctk) -> None:
    amd_ctk("config", "set", "users", "former=4711:gpus=1", "@left=4712")

    assert amd_ctk("users", "deny", "former").returncode == 0
    assert amd_ctk("users", "deny", "@4712").returncode == 0
    assert amd_ctk("users", "list").stdout == ONLY_ROOT


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["allow", "nobody-of-this-name"],
            2,
            "there is no user 'nobody-of-this-name' (name a user, @GROUP or everyone)",
        ),
        (["allow", "@no-such-group"], 2, "there is no group 'no-such-group' (see 'getent group')"),
        (["allow", "root"], 2, "root needs no permission (name another user)"),
        (["allow", "0"], 2, "root needs no permission (name another user)"),
        (["allow", "9" * 30], 2, f"there is no user '{'9' * 30}' (name a user, @GROUP or everyone)"),
        (
            ["allow", "daemon", "--groups=nothing"],
            8,
            "there is no group of GPUs nothing (see 'amd-ctk config show gpu-groups')",
        ),
        (["deny", "daemon", "--all"], 2, "WHO and --all exclude each other (leave out one of them)"),
    ],
)
def test_a_rule_for_nobody_is_refused_and_changes_nothing(served: Host, amd_ctk, words, code, said) -> None:
    answer = amd_ctk("users", *words)

    assert (answer.returncode, answer.stderr) == (code, f"{said}\n")
    assert amd_ctk("users", "list").stdout == ONLY_ROOT


def test_settings_that_nobody_understands_let_nobody_reserve(served: Host, amd_ctk) -> None:
    Path(served.path("/etc/amd-container-toolkit/config.toml")).write_text('users = ["alice"]\n')

    answer = amd_ctk("users", "list")

    assert answer.returncode == 8
    assert answer.stderr.endswith(
        "config.toml: users: 'alice' is not NAME=NUMBER, @GROUP=NUMBER or everyone"
        " (let 'sudo amd-ctk users' write it)\n"
    )


def test_config_writes_no_users_that_nobody_understands(served: Host, amd_ctk) -> None:
    answers = [amd_ctk("config", "set", "users", "alice=1001", wrong) for wrong in ("alice", "bob=1002:gpus=many")]

    assert [(answer.returncode, answer.stdout, answer.stderr) for answer in answers] == [
        (
            8,
            "",
            "users: 'alice' is not NAME=NUMBER, @GROUP=NUMBER or everyone (let 'sudo amd-ctk users' write it)\n",
        ),
        (8, "", "users: 'many' is not a number (let 'sudo amd-ctk users' write it)\n"),
    ]
    assert amd_ctk("users", "list").stdout == ONLY_ROOT


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("soon", "'soon' is not a time to wait (write 30s, 10m or 2h)\n"),
        ("367d", "367d is longer than 366 days (write 30m, 4h or 2d)\n"),
    ],
)
def test_a_time_that_is_none_allows_nothing(served: Host, amd_ctk, time: str, message: str) -> None:
    answer = amd_ctk("users", "allow", "daemon", f"--time={time}")

    assert (answer.returncode, answer.stderr) == (2, message)
    assert find_terms(served).permissions == ()


def test_one_user_is_excluded_while_everyone_is_allowed(host, amd_ctk):
    host()
    amd_ctk("users", "allow", "everyone", "--gpus=2")

    excluded = amd_ctk("users", "allow", "daemon", "--gpus=0")

    assert excluded.stdout == "daemon (user 1) may not reserve GPUs\n"
    assert amd_ctk("users", "list").stdout == (
        "Who       Number  GPUs at once  Time      Groups\n"
        "everyone          2             no limit  all GPUs\n"
        "daemon    1       none          -         -\n"
    )


def test_a_group_has_so_many_gpus_together(tracked, amd_ctk):

    allowed = amd_ctk("users", "allow", "@daemon", "--gpus=4", "--together")

    assert allowed.stdout == "@daemon (group 1) may reserve GPUs, at most 4 together\n"
    assert amd_ctk("users", "list").stdout == (
        "Who      Number  GPUs at once  Time      Groups\n@daemon  1       4 together    no limit  all GPUs\n"
    )
    assert json.loads(amd_ctk("users", "list", "--json").stdout)["users"] == [
        {"who": "@daemon", "number": 1, "gpus": 4, "together": True, "seconds": None, "groups": [], "until": None}
    ]


@pytest.mark.parametrize(
    "words", [("everyone", "--gpus=4"), ("daemon", "--gpus=4"), ("@daemon",), ("@daemon", "--gpus=0")]
)
def test_only_a_group_has_a_number_of_gpus_together(host, amd_ctk, words):
    host()

    answer = amd_ctk("users", "allow", *words, "--together")

    assert answer.returncode == 2
    assert "--together needs a group and a count" in answer.stderr
    assert amd_ctk("users", "list").stdout == ONLY_ROOT


def test_a_rule_for_everyone_still_counts_after_deny(host, amd_ctk):
    host()
    amd_ctk("users", "allow", "everyone")
    amd_ctk("users", "allow", "daemon", "--gpus=1")
    still = "the rule for everyone may still allow daemon: 'sudo amd-ctk users allow daemon --gpus=0' excludes daemon"

    answer = amd_ctk("users", "deny", "daemon")
    again = amd_ctk("users", "deny", "daemon")

    assert (answer.stdout, answer.stderr) == ("The rule for daemon is removed\n", f"{still}\n")
    assert (again.returncode, again.stderr) == (0, f"there is no rule for daemon ({still})\n")
