"""Power is cut at random moments: what a command had confirmed is there afterwards, and nothing is broken or stuck."""

from __future__ import annotations

import json
import random

import pytest

from power.disk import in_root, mounted, read_files
from power.look import ANSWERS, BOOTED, CLAIM_INSIDE, CLAIM_OUTSIDE, FINISH_UPGRADE, GOES_ON, wrong_files
from power.machine import Machine
from power.saved import continue_machine
from power.tally import CUTS, CUTS_FOR_A_BOOT, note_cut
from power.work import CUT, JOBS, NOTHING, ON_HOST, REPORT, SLEEPING, read_progress, read_starts, script

pytestmark = [pytest.mark.e2e, pytest.mark.power, pytest.mark.timeout(2 * 3600)]

# A part of the cuts comes right after a job.
LATEST_CUT = 1.15


def test_a_reboot_keeps_what_was_decided_and_forgets_containers(saved):
    machine = continue_machine(saved)
    machine.run(f"export {ON_HOST}\n{SLEEPING}")
    before = json.loads(machine.run(f"{ON_HOST} amd-ctk gpu-tracker status --json 2>/dev/null"))
    machine.begin("systemctl reboot")
    machine.wait_for_end()

    after = json.loads(boot(saved, machine.disk, f"{ON_HOST} amd-ctk gpu-tracker status --json 2>/dev/null"))

    with mounted(machine.disk) as root:
        assert wrong_files(saved, "exclusive", NOTHING, read_files(root)) == {}
    assert [len(gpu["containers"]) for gpu in before["gpus"]] == [0, 1, 0, 0]
    assert [len(gpu["containers"]) for gpu in after["gpus"]] == [0, 0, 0, 0]
    assert after["enabled"]
    assert [gpu["accessibility"] for gpu in after["gpus"]] == ["shared", "exclusive", "shared", "shared"]


@pytest.mark.parametrize("number", range(1, CUTS + 1))
def test_a_power_cut_loses_nothing_confirmed_and_breaks_nothing(saved, number):
    # In turn, so that each is cut equally often, and another one before each boot.
    job = list(JOBS)[(number + number // CUTS_FOR_A_BOOT) % len(JOBS)]
    machine = continue_machine(saved)
    if job == "upgrade":
        machine.slow_disk(0)
    machine.begin(script(job, random.Random(number).uniform(0, LATEST_CUT) * saved.seconds[job]))
    machine.wait_for(CUT)
    machine.cut_power()

    progress = read_progress(machine.console(), job)
    goes_on = f"{FINISH_UPGRADE if job == 'upgrade' else ''}{GOES_ON}"
    with mounted(machine.disk) as root:
        assert wrong_files(saved, job, progress, read_files(root)) == {}
        starts, not_read = read_starts(in_root(root, REPORT).stdout)
        # What had not reached the disk is lost, and may leave half a line.
        assert saved.starts <= starts <= saved.starts + progress.begun
        assert not_read <= 1
        if number % CUTS_FOR_A_BOOT:
            in_root(root, ANSWERS)
            in_root(root, f"{goes_on}{CLAIM_OUTSIDE}")
    if number % CUTS_FOR_A_BOOT == 0:
        boot(saved, machine.disk, f"{ANSWERS}{goes_on}{CLAIM_INSIDE}")
    note_cut(job, progress)


def boot(saved, disk, commands):
    """Boot from a disk, see that services did their part, and run commands; return what they printed."""
    machine = Machine(saved.image, disk)
    try:
        machine.run(BOOTED)
        return machine.run(f"set -e\n{commands}")
    finally:
        machine.cut_power()
