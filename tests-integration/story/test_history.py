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


def test_use_of_people_is_there_after_the_end_of_the_service(shared):
    shared.run("systemctl restart amd-gpu-tracker.service")
    shared.as_user("bob", "amd-ctk release held")

    wait_until(lambda: shared.run("ls /var/lib/amd-container-toolkit/history/open") == "")
    assert shared.run("cat /var/lib/amd-container-toolkit/history/*.jsonl | grep -c version").strip() == "2"


def test_a_history_that_cannot_be_written_is_named_by_doctor_and_once_by_the_journal(shared):
    shared.run("mount -t tmpfs -o size=64k,mode=755 small /var/lib/amd-container-toolkit/history")
    shared.run(
        "mkdir /var/lib/amd-container-toolkit/history/open; cat /dev/zero >/var/lib/amd-container-toolkit/history/x; :",
        check=False,
    )
    shared.run("systemctl restart amd-gpu-tracker.service")
    for _ in range(3):
        assert shared.as_user("alice", "amd-ctk run --gpus=free:1 -- echo ran").endswith("ran\n")

    said = "/var/lib/amd-container-toolkit/history cannot be written: the disk is full"
    wait_until(lambda: shared.journal_of("amd-gpu-tracker").count(f"not recorded: history: {said}") == 1)
    assert said in shared.run("amd-ctk doctor --only=tracker-files", check=False)

    shared.run("rm /var/lib/amd-container-toolkit/history/x")
    shared.as_user("alice", "amd-ctk run --gpus=free:1 -- true")
    wait_until(lambda: "recorded again: history" in shared.journal_of("amd-gpu-tracker"))
    assert said not in shared.run("amd-ctk doctor --only=tracker-files", check=False)
    shared.run("systemctl stop amd-gpu-tracker.service; umount /var/lib/amd-container-toolkit/history")


def test_a_full_run_is_bad_before_a_container_is_refused(shared):
    shared.run("mount -t tmpfs -o size=4k,mode=755 small /run/amd-container-toolkit")
    shared.run("cat /dev/zero >/run/amd-container-toolkit/x; :", check=False)

    said = shared.run("amd-ctk doctor --only=tracker-files", check=False)

    shared.run("umount /run/amd-container-toolkit")
    assert "files cannot be written to /run/amd-container-toolkit: the disk is full" in said
