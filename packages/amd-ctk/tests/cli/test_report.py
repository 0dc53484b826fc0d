"""amd-ctk report and usage, as programs."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from support.shared_host import wait_until

NOTHING = "0.0 GPU-hours, 0 reservations\n"
SECONDS = 60


def documents(text):
    """Return the JSON documents that several commands printed."""
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]


def test_a_job_is_in_the_report_while_it_runs_and_when_it_ended(host, amd_ctk):
    host()
    amd_ctk("gpu-tracker", "enable")

    amd_ctk("run", "--gpus=0-1", "--", "true")

    report = json.loads(amd_ctk("report", "--by", "gpu", "--json").stdout)
    assert [(total["gpu"], total["starts"]) for total in report["totals"]] in (
        [("GPU 0", 1), ("GPU 1", 1)],
        [("GPU 1", 1), ("GPU 0", 1)],
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is believed whom sudo names")
def test_a_job_behind_sudo_is_of_the_person_who_typed_sudo(host, amd_ctk, program):
    host()
    amd_ctk("gpu-tracker", "enable")
    inside = f"{program} queue list --json && {program} status --json && {program} report --json"

    answer = amd_ctk("run", "--gpus=0", "--", "sh", "-c", inside, SUDO_UID="40001")

    queue, status, report = documents(answer.stdout)
    assert [job["person"] for job in queue["running"]] == [40001]
    assert status["gpus"][0]["person"] == "40001"
    assert [total["person"] for total in report["totals"]] == ["user 40001"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is believed whom sudo names")
def test_a_job_that_waited_behind_sudo_is_of_the_person_who_typed_sudo(tracked, amd_ctk, program):
    Tracker(tracked).recording.begin()
    inside = f"{program} report --json"

    with ThreadPoolExecutor() as pool, Tracker(tracked).reserve("0", name="nightly"):
        words = ("run", "--gpus=0", "--wait=60s", "--name=late", "--", "sh", "-c", inside)
        job = pool.submit(amd_ctk, *words, SUDO_UID="40001")
        wait_until(lambda: Tracker(tracked).waiting() or job.done())
        people = [ticket.person for ticket in Tracker(tracked).waiting()]

    assert people == [40001]
    totals = json.loads(job.result(SECONDS).stdout)["totals"]
    assert {total["person"]: total["starts"] for total in totals} == {"(not known)": 1, "user 40001": 1}


def test_a_sample_has_how_busy_the_gpus_of_a_job_are(host, amd_ctk, program):
    host()
    amd_ctk("gpu-tracker", "enable")
    inside = f"{program} usage sample && {program} report --json"

    answer = amd_ctk("run", "--gpus=0", "--", "sh", "-c", inside)

    assert json.loads(answer.stdout)["all"]["share_used"] == 0.0


def test_nothing_is_recorded_while_the_history_is_off(host, amd_ctk):
    host()
    amd_ctk("gpu-tracker", "enable")
    assert amd_ctk("report", "disable", "--history").stderr == "Not recording reservations\n"

    amd_ctk("run", "--gpus=0", "--", "true")

    answer = amd_ctk("report")
    assert answer.stdout.splitlines()[0].endswith(": 0.0 GPU-hours, 0 reservations")
    assert answer.stderr == "Reservations are not recorded: 'sudo amd-ctk report enable' starts it\n"


def test_a_report_tells_that_the_tracker_is_disabled(host, amd_ctk):
    host()

    answer = amd_ctk("report")

    assert answer.stdout.endswith(": 0.0 GPU-hours, 0 reservations\n")
    assert answer.stderr == (
        "GPU Tracker is disabled, so reservations are not recorded: 'sudo amd-ctk gpu-tracker enable' starts it\n"
    )
    amd_ctk("gpu-tracker", "enable")
    assert amd_ctk("report").stderr == ""


def test_a_report_tells_why_a_host_of_version_1_has_no_history(host, amd_ctk):
    served = host()
    former = Path(served.path("/var/log/gpu-tracker.json"))
    former.parent.mkdir(parents=True, exist_ok=True)
    former.write_text('{"enabled":true,"gpusStatus":{"0":{"uuid":"0xEA35F57CC80DEB35","accessibility":1}}}')
    history = Path(served.path("/var/lib/amd-container-toolkit/history"))
    history.parent.mkdir(parents=True)
    history.touch()

    # The first command begins the history, and the second one finds that the first one could not.
    first, second = amd_ctk("report"), amd_ctk("report")
    history.unlink()
    amd_ctk("report", "enable")
    begun = amd_ctk("report")

    why = (
        f"Reservations are not recorded, because {history} is not a directory;"
        " fix this, then run 'sudo amd-ctk report enable'\n"
    )
    assert [answer.stdout.partition(": ")[2] for answer in (first, second, begun)] == [NOTHING] * 3
    assert [answer.stderr for answer in (first, second, begun)] == [why, why, ""]
    assert [answer.returncode for answer in (first, second, begun)] == [0, 0, 0]


def test_a_report_tells_what_keeps_reservations_out_of_the_history(host, amd_ctk):
    noted = Path(host().path("/run/amd-container-toolkit/unrecorded/history"))
    amd_ctk("gpu-tracker", "enable")
    noted.parent.mkdir()
    noted.write_text('{"problem": "/var/history cannot be written: the disk is full"}')

    answer = amd_ctk("report")

    assert answer.stdout.endswith(NOTHING)
    assert answer.stderr == (
        "Some reservations are not recorded, because /var/history cannot be written: the disk is full\n"
    )


@pytest.mark.parametrize("words", [(), ("--readers=everyone",)])
def test_a_file_in_place_of_the_directory_of_all_records_is_named(words, host, amd_ctk):
    records = Path(host().path("/var/lib/amd-container-toolkit"))
    records.parent.mkdir(parents=True, exist_ok=True)
    records.touch()

    answer = amd_ctk("report", "enable", *words)

    assert answer.stderr == f"{records} is not a directory (move it away, then run the command again)\n"
    assert answer.returncode == 5


def test_metrics_go_with_the_timer(host, amd_ctk):
    metrics = Path(host().root, "var/lib/prometheus/node-exporter/amd-gpu.prom")
    metrics.parent.mkdir(parents=True)
    amd_ctk("gpu-tracker", "enable")
    amd_ctk("usage", "sample")
    assert metrics.exists()

    amd_ctk("report", "disable")

    assert not metrics.exists()


def test_metrics_that_cannot_be_written_are_named(host, amd_ctk):
    metrics = Path(host().root, "var/lib/prometheus/node-exporter/amd-gpu.prom")
    metrics.mkdir(parents=True)
    amd_ctk("gpu-tracker", "enable")

    answer = amd_ctk("usage", "sample")

    problem = f"{metrics} cannot be written: it is a directory"
    assert f"amd-ctk: not recorded: metrics: {problem}\n" in answer.stderr
    assert problem in amd_ctk("doctor", "--only=tracker-files").stdout
    # The journal has it already.
    again = amd_ctk("usage", "sample", JOURNAL_STREAM="1:1")
    assert "not recorded" not in again.stderr
    metrics.rmdir()
    amd_ctk("usage", "sample")
    assert problem not in amd_ctk("doctor", "--only=tracker-files").stdout


def test_the_page_is_written_to_the_file(host, amd_ctk, tmp_path):
    host()
    amd_ctk("gpu-tracker", "enable")

    answer = amd_ctk("report", f"--html={tmp_path}/week.html")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", f"Wrote {tmp_path}/week.html\n")
    assert (tmp_path / "week.html").read_text().startswith("<!doctype html>\n")


def test_options_that_exclude_each_other_and_unknown_words_are_refused(host, amd_ctk):
    host()

    both, unknown = amd_ctk("report", "--json", "--csv"), amd_ctk("report", "--by=colour")
    nobody = amd_ctk("report", "enable", "--readers=no-such-group")

    assert (both.returncode, both.stderr) == (2, "--json and --csv exclude each other (leave out one of them)\n")
    assert (unknown.returncode, unknown.stderr) == (
        2, "--by colour is not known (write one of person, gpu, image, day)\n",
    )  # fmt: skip
    assert (nobody.returncode, nobody.stderr) == (
        2, "this system has no group no-such-group (see 'getent group')\n",
    )  # fmt: skip


def test_a_user_without_access_to_the_history_reads_what_to_do(host, limited_amd_ctk, amd_ctk, tmp_path):
    served = host()
    amd_ctk("gpu-tracker", "enable")
    history = served.path("/var/lib/amd-container-toolkit/history")
    os.chmod(history, 0)

    answer = limited_amd_ctk("report")

    hint = "run it as root, or let root give a group the history: 'sudo amd-ctk report enable --readers GROUP'"
    assert (answer.returncode, answer.stderr) == (3, f"{history}/open cannot be read: access is refused ({hint})\n")


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_the_earlier_word_usage_works_on_and_names_the_new_one(host, amd_ctk, verb):
    host()
    amd_ctk("report", "enable")

    now, before = amd_ctk("report", verb, "--dry-run"), amd_ctk("usage", verb, "--dry-run")

    assert (before.returncode, before.stdout) == (0, now.stdout)
    assert (now.stderr, before.stderr) == (
        "",
        f"'amd-ctk usage {verb}' still works; 'amd-ctk report {verb}' replaces it\n",
    )
