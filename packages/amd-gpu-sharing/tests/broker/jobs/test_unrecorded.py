"""What cannot be recorded is known, with its path and reason, until it works again."""

from __future__ import annotations

import os

from amd_gpu_sharing.broker.jobs.journal import Unrecorded
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import HISTORY, METRICS, clear_failure, note_failure, read_failures
from amdgpu_discovery.host import Host

FULL = "/var/lib/amd-container-toolkit/history cannot be written: No space left on device"


def test_the_last_failure_of_each_record_is_known(tmp_path):
    note_failure(str(tmp_path), HISTORY, "another")
    note_failure(str(tmp_path), HISTORY, FULL)
    note_failure(str(tmp_path), METRICS, "metrics cannot be written")

    assert read_failures(str(tmp_path)) == {"history": FULL, "metrics": "metrics cannot be written"}
    clear_failure(str(tmp_path), METRICS)
    assert read_failures(str(tmp_path)) == {"history": FULL}


def test_a_failure_that_cannot_be_noted_harms_nobody(tmp_path):
    os.mkdir(tmp_path / "run")
    (tmp_path / "run/unrecorded").write_text("a file")

    note_failure(str(tmp_path / "run"), HISTORY, FULL)

    assert read_failures(str(tmp_path / "run")) == {}


def test_the_service_says_once_what_is_not_recorded_and_once_that_it_is_again(tmp_path):
    state, said = State(Host(str(tmp_path))), []
    unrecorded = Unrecorded(state, lambda verdict, sentence: said.append(f"{verdict}: {sentence}"))
    note_failure(state.run_directory, HISTORY, FULL)
    for _ in range(3):
        unrecorded.log_changes()
    clear_failure(state.run_directory, HISTORY)
    for _ in range(3):
        unrecorded.log_changes()

    assert said == [f"not recorded: history: {FULL}", "recorded again: history"]
