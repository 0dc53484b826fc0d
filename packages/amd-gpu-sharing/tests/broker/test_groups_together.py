"""Members of a group have so many GPUs together, whoever of them has them."""

from __future__ import annotations

import ctypes
import random

import pytest

from amd_gpu_sharing.broker.requests.people import find_permission, format_permission, parse_permission
from amd_gpu_sharing.broker.requests.protocol import RESERVE, Request
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amdgpu_discovery.numbering import locate_gpus
from support.shared_host import ALICE, BOB, CAROL, run, users

LAB_A, LAB_B = 40101, 40102
DAVE = 40004
# Of linux/sched.h.
CLONE_NEWUSER = 0x10000000
A = f"@lab-a={LAB_A}:gpus=4:together"
B = f"@lab-b={LAB_B}:gpus=2:together"
STEPS = 120


def test_members_of_a_group_have_so_many_gpus_together(broker, person):
    broker.set_terms("fifo", A)
    alice = person(ALICE, run("a", "free:3"), groups=[LAB_A])
    assert alice.line() == "got (0, 1, 2)"

    assert person(BOB, run("b", "free:2", wait=False), groups=[LAB_A]).line() == (
        "1: @lab-a has 3 of 4 GPUs ('amd-ctk run --wait' waits in line)"
    )
    assert person(BOB, run("c", "free:1", wait=False), groups=[LAB_A]).line() == "got (3,)"
    assert person(BOB, run("d", "free:5", wait=False), groups=[LAB_A]).line() == (
        "3: @lab-a may have 4 GPUs at once, but this requests 5 (request fewer)"
    )


def test_a_waiter_at_the_limit_of_its_group_holds_up_no_other_group(broker, person):
    broker.set_terms("fifo", A, B)
    alice = person(ALICE, run("a", "free:4"), groups=[LAB_A])
    alice.line()
    bob = person(BOB, run("b", "free:2"), groups=[LAB_A])
    assert bob.line() == "waiting for 2 GPUs: 4 free of 8; @lab-a has 4 of 4 GPUs"

    assert person(CAROL, run("c", "free:2"), groups=[LAB_B]).line() == "got (4, 5)"
    alice.end()
    assert bob.answer() == "got (0, 1)"


def test_in_fair_order_who_of_the_group_used_less_is_served_first(broker, person):
    broker.set_terms("fair", A)
    first = person(ALICE, run("first", "free:4"), groups=[LAB_A])
    first.line()
    again = person(ALICE, run("again", "free:4"), groups=[LAB_A])
    again.line()
    bob = person(BOB, run("b", "free:4"), groups=[LAB_A])
    bob.line()

    first.end()

    assert bob.answer() == "got (0, 1, 2, 3)"


def test_jobs_by_a_rule_for_each_member_count_once_it_is_one_for_all(broker, person):
    broker.set_terms("fifo", f"@lab-a={LAB_A}:gpus=3")
    person(ALICE, run("a", "free:3"), groups=[LAB_A]).line()

    broker.set_terms("fifo", A)

    assert person(BOB, run("b", "free:2", wait=False), groups=[LAB_A]).line().startswith("1: @lab-a has 3 of 4 GPUs")


def test_a_waiter_has_the_new_limit_of_its_group(broker, person):
    broker.set_terms("fifo", A)
    person(ALICE, run("a", "free:4"), groups=[LAB_A]).line()
    bob = person(BOB, run("b", "free:2"), groups=[LAB_A])
    bob.line()

    broker.set_terms("fifo", f"@lab-a={LAB_A}:gpus=6:together")
    # Asking makes the broker look.
    person(CAROL, run("c", "free:1", wait=False)).line()

    assert bob.answer() == "got (4, 5)"


def test_a_restarted_service_knows_what_a_group_has(broker, person):
    broker.set_terms("fifo", A)
    person(ALICE, run("a", "free:2"), groups=[LAB_A]).line()
    person(BOB, Request(verb=RESERVE, name="debug", gpus="free:1", seconds=3600), groups=[LAB_A]).line()
    broker.kill()
    broker.start()

    assert person(ALICE, run("b", "free:2", wait=False), groups=[LAB_A]).line().startswith("1: @lab-a has 3 of 4 GPUs")


def test_a_reservation_and_its_job_count_once_for_the_group(broker, person):
    broker.set_terms("fifo", B)
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="free:1", seconds=3600), groups=[LAB_B]).line()
    assert person(ALICE, run("lab", "", reservation="debug"), groups=[LAB_B]).line() == "got (0,)"

    assert person(BOB, run("train", "free:1", wait=False), groups=[LAB_B]).line() == "got (1,)"


def test_a_container_that_outlives_its_job_counts_for_the_group(host, broker, person):
    broker.set_terms("fifo", B)
    command = ["sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600"]
    alice = person(ALICE, run("a", "free:2"), groups=[LAB_B], command=command)
    assert alice.line() == "got (0, 1)"
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={alice.line()}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    assert claim_nodes(host, container, granted=locate_gpus(host)[:2]).reserve()

    alice.kill()
    alice.ended_by()

    assert users(host) == {0: ["c1"], 1: ["c1"]}
    assert person(BOB, run("b", "free:1", wait=False), groups=[LAB_B]).line().startswith("1: @lab-b has 2 of 2 GPUs")


def test_spare_jobs_count_for_no_group(broker, person):
    broker.set_terms("fifo", B)
    person(ALICE, run("a", "free:4", spare=True), groups=[LAB_B]).line()

    assert person(BOB, run("b", "free:2", wait=False), groups=[LAB_B]).line() == "got (4, 5)"


def test_a_member_of_two_groups_counts_for_the_one_that_allows_more(broker, person):
    broker.set_terms("fifo", A, B)
    assert person(BOB, run("b", "free:3"), groups=[LAB_A, LAB_B]).line() == "got (0, 1, 2)"

    assert person(CAROL, run("c", "free:2", wait=False), groups=[LAB_B]).line() == "got (4, 5)"
    assert person(ALICE, run("a", "free:2", wait=False), groups=[LAB_A]).line().startswith("1: @lab-a has 3 of 4 GPUs")


def test_a_rule_for_the_user_comes_before_that_of_the_group(broker, person):
    broker.set_terms("fifo", A, f"alice={ALICE}:gpus=2")
    person(ALICE, run("a", "free:2"), groups=[LAB_A]).line()

    assert person(BOB, run("b", "free:4", wait=False), groups=[LAB_A]).line() == "got (4, 5, 6, 7)"


def test_each_counts_alone_where_several_groups_allow_as_many():
    alone = parse_permission(f"@x={LAB_A}:gpus=2")
    together = parse_permission(f"@y={LAB_B}:gpus=2:together")

    assert find_permission([together, alone], ALICE, (LAB_A, LAB_B)) == alone


@pytest.mark.parametrize("words", [A, f"@lab-a={LAB_A}:gpus=4:together:time=24h:groups=notebooks"])
def test_a_rule_is_written_as_it_is_read(words):
    assert format_permission(parse_permission(words)) == words


@pytest.mark.parametrize(
    "words", ["everyone:gpus=4:together", "alice=1:gpus=4:together", "@x=1:together", "@x=1:gpus=0:together"]
)
def test_only_a_group_has_a_number_of_gpus_together(words):
    with pytest.raises(ValueError, match="limits GPUs together, but is not a group with a count"):
        parse_permission(words)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.needs("users' processes")
def test_a_group_never_has_more_than_its_limit_and_no_request_within_it_is_refused(host, broker, person, seed):
    chance = random.Random(seed)
    broker.set_terms("fifo", A, B, "everyone:gpus=3")
    # By which rule each has GPUs, and how many that allows.
    groups = {ALICE: [LAB_A], BOB: [LAB_A, LAB_B], CAROL: [LAB_B], DAVE: []}
    counted = {ALICE: (LAB_A, 4), BOB: (LAB_A, 4), CAROL: (LAB_B, 2), DAVE: (DAVE, 3)}
    running = []

    for step in range(STEPS):
        if running and chance.random() < 0.45:
            running.pop(chance.randrange(len(running)))[2].end()
        uid, count = chance.choice(list(groups)), chance.randint(1, 3)
        whose, limit = counted[uid]
        held = sum(gpus for other, gpus, _ in running if counted[other][0] == whose)
        free = 8 - sum(gpus for _, gpus, _ in running)

        asks = person(uid, run(f"job-{step}", f"free:{count}", wait=False), groups=groups[uid])
        line = asks.line()

        if count > limit:
            assert line.startswith("3: "), line
        elif held + count > limit:
            assert f" {held} of {limit} GPUs" in line, line
        elif count > free:
            assert f"free:{count}: {free} of 8 GPUs" in line, line
        else:
            assert line.startswith("got "), line
            running.append((uid, count, asks))
        assert len(users(host)) == sum(gpus for _, gpus, _ in running)


def in_a_user_namespace():
    assert not ctypes.CDLL(None).unshare(CLONE_NEWUSER)


@pytest.mark.needs("namespaces")
def test_in_a_user_namespace_the_rule_for_everyone_does_not_count_beside_rules_for_groups(broker, person):
    broker.set_terms("fifo", f"@lab-a={LAB_A}:gpus=1", "everyone:gpus=8")

    # The kernel does not tell a member who dropped the group from another user.
    refused = person(ALICE, run("a", "free:2"), first=in_a_user_namespace).line()

    assert refused == (
        "3: rules for groups decide who may reserve GPUs here, and in a user namespace groups may be missing"
        " (run the command outside of it, without 'unshare' or a container)"
    )
    assert person(BOB, run("b", "free:2"), first=in_a_user_namespace, groups=[LAB_A]).line() == (
        "3: you may have 1 GPU at once, but this requests 2 (request fewer)"
    )
    assert person(CAROL, run("c", "free:2")).line() == "got (0, 1)"
    broker.set_terms("fifo", "everyone:gpus=8", f"alice={ALICE}:gpus=2", f"@lab-a={LAB_A}:gpus=1")
    assert person(ALICE, run("d", "free:2"), first=in_a_user_namespace).line() == "got (2, 3)"
    broker.set_terms("fifo", "everyone:gpus=8")
    assert person(BOB, run("e", "free:2"), first=in_a_user_namespace).line() == "got (4, 5)"
