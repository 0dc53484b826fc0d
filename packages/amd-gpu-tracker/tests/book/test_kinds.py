"""A lease says what it is of, in its file and as a value, and what follows from that."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import LEASE_BEGINS, Lease, ProcessId, format_lease, parse_lease

FIRST, PROCESS = ProcessId(pid=1, start=3), ProcessId(pid=4021, start=912345)
GRACE = 30.0
KINDS = ("container", "kept", "job", "reservation", "ending")
# Written by the code of commit 715338e6, the last before leases had a kind: one lease of each kind, then the same as it
# writes those with a kind again, and last the container's with the changes by which it keeps it for a restart.
LINES = Path(__file__).with_name("leases_of_715338e6.jsonl").read_bytes().splitlines(keepends=True)


def lease(container_id: str, **changes: object) -> Lease:
    of_machine = {"boot_offset": 1794990000.25, "boot_id": "5e0bc97a", "namespace": "pid:[4026531836]"}
    fields = {"creator": PROCESS, "gpus": ("0000:03:00.0/0",), "since": 1795000000.5, **of_machine}
    return Lease(container_id=container_id, **{**fields, **changes})


CONTAINER = lease("9f2c", ways=("env",), bundle="/run/b/9f2c", person=1000)
KEPT = lease("9f2c", ways=("env",), bundle="/var/lib/docker/containers/9f2c", creator=FIRST, until=10015.0)
JOB = lease("1000/train", ways=("api",), person=1000, limit=13600.0, token_digest="c0ffee")
RESERVATION = lease("1000/night", ways=("api",), person=1000, until=13600.0, creator=FIRST)
ENDING = lease("1000/train.ending", ways=("api",), creator=FIRST, until=10090.0, reservation="1000/train")
LEASES = (CONTAINER, KEPT, JOB, RESERVATION, ENDING)


@pytest.mark.parametrize(("written", "kind"), list(zip(LEASES, KINDS, strict=True)), ids=KINDS)
def test_the_last_key_of_a_lease_is_its_kind(written, kind):
    content = format_lease(written.replace(unknown=(("colour", 1000),)))

    assert content.startswith(LEASE_BEGINS)
    assert content.endswith(f',"colour":1000,"kind":"{kind}"}}\n'.encode())
    assert parse_lease(content).unknown == (("colour", 1000),)


@pytest.mark.parametrize(("line", "kind"), list(zip(LINES[:5], KINDS, strict=True)), ids=KINDS)
def test_a_lease_without_a_kind_is_read_as_what_it_is(line, kind):
    assert b'"kind"' not in line
    assert parse_lease(line).kind == kind
    assert format_lease(parse_lease(line)) == line.replace(b"}\n", f',"kind":"{kind}"}}\n'.encode())


@pytest.mark.parametrize(("line", "kind"), list(zip(LINES[5:10], KINDS, strict=True)), ids=KINDS)
def test_a_lease_that_an_earlier_version_wrote_again_is_read_as_what_it_is(line, kind):
    assert json.loads(line)["kind"] == kind
    assert parse_lease(line).kind == kind
    assert format_lease(parse_lease(line)) == line


def test_a_kind_that_an_earlier_version_did_not_change_does_not_count():
    assert json.loads(LINES[10])["kind"] == "container"
    assert parse_lease(LINES[10]).kind == "kept"
    assert json.loads(format_lease(parse_lease(LINES[10])))["kind"] == "kept"


@pytest.mark.parametrize("kind", [None, 7, "reservation", ["job"], "a later one"])
def test_only_the_conditions_of_a_lease_decide_what_it_is(kind):
    content = json.dumps({**json.loads(LINES[2]), "kind": kind}).encode()

    assert parse_lease(content) == parse_lease(LINES[2])
    assert parse_lease(content).kind == "job"


def test_a_job_whose_name_ends_like_that_of_an_ending_one_is_a_job():
    assert lease("train.ending", ways=("api",)).kind == "job"


def test_each_kind_has_its_title():
    assert [kind_of(each).title_in_refusal("web") for each in LEASES] == [
        "container 9f2c (web) of {1000}",
        "container 9f2c (web), which its engine will restart",
        "job train of {1000}",
        "job night of {1000}",
        "job train.ending of user 1000",
    ]


def test_each_kind_is_over_by_its_processes_or_by_its_time():
    assert [kind_of(each).is_over(13600.0) for each in LEASES] == [False, True, False, True, True]
    assert [kind_of(each).is_over(10000.0) for each in LEASES] == [False] * 5
    assert [kind_of(each).needed_path for each in LEASES] == ["", "/var/lib/docker/containers/9f2c", "", "", ""]


def test_each_kind_has_an_earliest_and_a_latest_end():
    kinds = [kind_of(each) for each in LEASES]

    assert [each.end for each in kinds] == [0.0, 10015.0, 13600.0, 13600.0, 10090.0]
    assert [each.earliest_end(10000.0) for each in kinds] == [0.0, 0.0, 13600.0, 13600.0, 10090.0]
    assert [each.latest_end(10000.0, GRACE) for each in kinds] == [inf, inf, 13630.0, 13600.0, 10090.0]


def test_a_spare_job_is_free_as_soon_as_others_wait():
    job = kind_of(JOB.replace(preemptible=9000.0))

    assert (job.earliest_end(10000.0), job.latest_end(10000.0, GRACE)) == (0.0, 10030.0)


def test_another_end_is_a_limit_for_processes_and_a_time_for_what_has_none():
    changed = [kind_of(each).with_end(20000.0) for each in LEASES]

    assert [(each.limit, each.until) for each in changed] == [
        (20000.0, 0.0),
        (0.0, 20000.0),
        (20000.0, 0.0),
        (0.0, 20000.0),
        (0.0, 20000.0),
    ]


def test_only_a_container_is_kept_for_a_restart_and_not_beyond_its_limit():
    assert [kind_of(each).kept_until(10015.0) for each in LEASES] == [10015.0, 0.0, 0.0, 0.0, 0.0]
    assert kind_of(CONTAINER.replace(limit=10005.0)).kept_until(10015.0) == 10005.0
    assert kind_of(CONTAINER.replace(pod="ipc:7")).kept_until(10015.0) == 0.0


def test_only_jobs_and_reservations_of_people_may_be_idle():
    assert [kind_of(each).may_be_idle for each in LEASES] == [False, False, True, True, False]
    assert not kind_of(JOB.replace(person=None)).may_be_idle
    assert not kind_of(JOB.replace(reservation="1000/night")).may_be_idle
    assert not kind_of(JOB.replace(preemptible=9000.0)).may_be_idle
    assert not kind_of(JOB.replace(is_preempted=True)).may_be_idle


def test_leases_in_a_reservation_end_with_it():
    job = lease("1000/train", ways=("api",), reservation="1000/night", limit=13600.0, token_digest="d1")
    of_job = lease("c1", ways=("env",), reservation="1000/night", reservation_digest="d1")
    of_reservation = lease("c2", ways=("env",), reservation="1000/night", reservation_digest="d0")
    # Of an earlier reservation of this name, which had another end.
    earlier = lease("1000/old", ways=("api",), reservation="1000/night", limit=12000.0, token_digest="d2")
    reservation = RESERVATION.replace(token_digest="d0")
    leases = (reservation, of_job, earlier, of_reservation, job)

    assert reservation.inside(leases) == [job, of_job, of_reservation]
    assert job.inside(leases) == [of_job]
    assert reservation.rivals(leases[1:]) == [earlier]
    # All that is in a reservation shares its GPUs.
    assert job.rivals(leases) == [earlier]
