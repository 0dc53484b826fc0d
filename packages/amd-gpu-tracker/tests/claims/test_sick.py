"""What root has seen to be sick is refused by name until root has seen it well; a start reads no health."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import read_drains, write_drains
from amd_gpu_tracker.errors import GpusRefused
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.health.limits import HealthLimits
from amdgpu_discovery.numbering import locate_gpus

WHY = "reading gpu_busy_percent ends with an I/O error"
CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def said(refused) -> str:
    return CLOCK.sub("THEN", str(refused.value))


@pytest.fixture
def tracker(machine, monkeypatch):
    """Return the tracker of four GPUs, for root."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    return machine.tracker


@pytest.fixture
def sicken(machine):
    """Return a function that lets the driver give a GPU up; called again it is well."""

    def toggle(number: int) -> None:
        address = locate_gpus(machine.host)[number].pci_address
        path = Path(machine.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/gpu_busy_percent"))
        if path.is_symlink():
            path.unlink()
            return
        path.unlink(missing_ok=True)
        # Where a process has nothing mapped, reading its memory ends with EIO.
        path.symlink_to("/proc/self/mem")

    return toggle


def test_a_gpu_that_root_has_seen_sick_is_refused_with_what_was_seen_and_when(tracker, sicken):
    sicken(1)
    assert tracker.reserve("1", name="before").numbers == (1,)
    tracker.release("before")

    assert [gpu.state for gpu in tracker.states()] == ["free", "sick", "free", "free"]

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("0-1", name="a")
    assert said(refused) == (
        f"GPU 1 is sick since THEN: {WHY} "
        "('sudo amd-ctk status' looks again, and the setting allow-sick-gpus gives it out)"
    )
    assert tracker.reserve("0,2-3", name="b").numbers == (0, 2, 3)


def test_all_and_choices_give_the_rest(tracker, sicken):
    sicken(1)
    tracker.states()

    assert tracker.reserve("all", name="a").numbers == (0, 2, 3)
    tracker.release("a")
    assert tracker.reserve("free:3", name="b").numbers == (0, 2, 3)


def test_a_choice_passes_over_what_was_seen_sick_although_it_answers_again(tracker, sicken):
    sicken(1)
    tracker.states()
    sicken(1)

    with pytest.raises(GpusRefused, match=f"free:4: 3 of 4 GPUs are free \\(1 sick: {WHY}\\)"):
        tracker.reserve("free:4", name="a")


def test_a_gpu_that_root_sees_well_again_is_given_out(machine, tracker, sicken):
    sicken(1)
    tracker.states()
    sicken(1)

    assert [gpu.state for gpu in tracker.states()] == ["free"] * 4
    assert tracker.reserve("1", name="a").numbers == (1,)
    assert read_drains(machine.host) == ()


def test_states_without_errors_find_sick_gpus_and_make_none_free_again(tracker, sicken):
    sicken(1)
    tracker.states(with_errors=False)
    sicken(1)

    assert [gpu.state for gpu in tracker.states(with_errors=False)] == ["free", "sick", "free", "free"]
    with pytest.raises(GpusRefused):
        tracker.reserve("1", name="a")


def test_the_first_time_that_it_was_seen_counts(machine, tracker, sicken):
    sicken(1)
    first = tracker.states()[1]
    sicken(2)
    again = tracker.states()

    assert (again[1].since, again[1].reason) == (first.since, WHY)
    assert [gpu.sick for gpu in machine.tracker.status().gpus] == ["", WHY, WHY, ""]


def test_a_reboot_ends_it_and_a_reset_does_not(machine, tracker, sicken):
    sicken(1)
    tracker.states()

    tracker.reset()
    with pytest.raises(GpusRefused):
        tracker.reserve("1", name="a")

    write_drains(machine.host, [each.replace(boot_id="an earlier one") for each in read_drains(machine.host)])
    assert tracker.reserve("1", name="a").numbers == (1,)


@pytest.mark.needs("root")
def test_sick_and_drained_are_kept_apart(machine, tracker, sicken):
    tracker.drain("1-2", reason="fan swap")
    sicken(1)
    tracker.states()

    with pytest.raises(GpusRefused, match="GPUs 1 and 2 are drained: fan swap"):
        tracker.reserve("1,2", name="a")
    assert tracker.undrain("all") == (1, 2)
    with pytest.raises(GpusRefused, match="GPU 1 is sick since"):
        tracker.reserve("1,2", name="a")
    assert tracker.undrain("all") == ()
    assert [(gpu.drained, bool(gpu.sick)) for gpu in machine.tracker.status().gpus] == [
        (None, False),
        (None, True),
        (None, False),
        (None, False),
    ]


@pytest.mark.needs("root")
def test_a_gpu_that_is_drained_and_sick_is_drained_for_all(machine, tracker, sicken):
    tracker.drain("1", reason="fan swap")
    sicken(1)
    both = tracker.states()[1]
    gpus = locate_gpus(machine.host)

    assert (both.state, both.reason) == ("drained", f"fan swap; sick: {WHY}")
    assert (tracker.gpus.withheld_as(gpus), tracker.gpus.withheld(gpus)) == (
        {1: "drained"},
        {1: "GPU 1 is drained: fan swap"},
    )
    with pytest.raises(GpusRefused, match="GPU 1 is drained: fan swap"):
        tracker.reserve("1", name="a")
    with pytest.raises(GpusRefused, match="3 of 4 GPUs are free \\(1 drained: fan swap\\)"):
        tracker.reserve("free:4", name="a")

    # It works again, which root has not seen yet; the next look sees it.
    sicken(1)
    assert tracker.states(with_errors=False)[1].reason == f"fan swap; sick: {WHY}"
    assert tracker.states()[1].reason == "fan swap"


def test_where_the_administrator_allows_it_sick_gpus_are_given_to_who_names_them(machine, tracker, sicken):
    sicken(1)
    tracker.states()

    allowing = Tracker(machine.host, processes=machine.processes, rules=ChoiceRules(groups={}, gives_sick=True))
    assert [gpu.state for gpu in allowing.states()] == ["free", "sick", "free", "free"]

    assert tracker.reserve("1", name="a").numbers == (1,)


def test_a_limit_of_the_administrator_counts_in_place_of_the_drivers(machine, tracker):
    address = locate_gpus(machine.host)[1].pci_address
    ras = Path(machine.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/ras"))
    ras.mkdir()
    (ras / "gpu_vram_bad_pages").write_text("".join(f"0x{page:08x} : 0x00001000 : R\n" for page in range(3)))
    strict = ChoiceRules(groups={}, limits=HealthLimits(bad_pages=2))

    assert [gpu.state for gpu in tracker.states()] == ["free", "suspect", "free", "free"]
    assert [gpu.state for gpu in Tracker(machine.host, processes=machine.processes, rules=strict).states()] == [
        "free",
        "sick",
        "free",
        "free",
    ]
    with pytest.raises(GpusRefused, match="3 pages of its memory are retired, and the limit is 2"):
        tracker.reserve("1", name="a")


def test_where_nothing_is_tracked_nothing_is_written(untracked):
    untracked.tracker.states()

    assert not Path(untracked.host.path("/var/lib/amd-container-toolkit/gpu-tracker-drains.json")).exists()


def test_a_state_that_cannot_be_written_is_shown(machine, tracker, sicken):
    sicken(1)
    shutil.rmtree(machine.host.path("/run/amd-container-toolkit"))
    Path(machine.host.path("/run/amd-container-toolkit")).write_text("")

    assert [gpu.state for gpu in tracker.states()] == ["free", "sick", "free", "free"]
