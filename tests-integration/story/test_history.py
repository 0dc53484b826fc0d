"""What people used is in the report: written by the service that packages bring, as their unit lets it."""

from __future__ import annotations

import json

import pytest

from support.stand import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def shared(stand):
    """Return a machine whose GPUs people may reserve."""
    stand.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone")
    return stand


def test_jobs_and_reservations_of_people_are_in_the_report(shared):
    shared.as_user("alice", "amd-ctk run --gpus=free:1 -- true")
    shared.as_user("bob", "amd-ctk reserve free:2 --for=1h --name=held")

    totals = json.loads(shared.run("amd-ctk report --json"))["totals"]

    assert {row["person"]: row["starts"] for row in totals} == {"alice": 1, "bob": 1}


def test_what_people_used_is_there_after_the_end_of_the_service(shared):
    shared.run("systemctl restart amd-gpu-tracker.service")
    shared.as_user("bob", "amd-ctk release held")

    wait_until(lambda: shared.run("ls /var/lib/amd-container-toolkit/history/open") == "")
    assert shared.run("cat /var/lib/amd-container-toolkit/history/*.jsonl | grep -c version").strip() == "2"
