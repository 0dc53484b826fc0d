"""What is written down of reservations: when they begin and end, and what an interruption or a full disk leaves."""

from __future__ import annotations

import calendar
import json
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.history import LONGEST_HISTORY_LINE, finish, format_begun, open_path
from amd_gpu_tracker.book.history_directory import begin_history
from amd_gpu_tracker.book.lease import Lease, ProcessId
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.book.unrecorded import read_failures
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.watch.history.files import read_history, remove_old, settle
from amd_gpu_tracker.watch.history.sampling import add_sample
from amd_gpu_tracker.watch.history.used import parse_line, parse_lines
from amd_gpu_tracker.watch.usage.users import GpuUser, UserProcess
from amdgpu_discovery.host import Host

GPU = "0000:03:00.0/0"
OTHER = "0000:26:00.0/0"
# 2026-11-02 02:00:00 UTC; this boot began 1,000 seconds before.
SINCE = 1793584800.0
ALL = {"since": 0.0, "until": 1e11}


@pytest.fixture
def state(tmp_path):
    made = State(Host(str(tmp_path)))
    made.prepare()
    begin_history(made)
    return made


def a_lease(container_id="c1", *, since=SINCE, gpus=(GPU,), boot_id="this", **more):
    creator = ProcessId(pid=1, start=1)
    fields = {"creator": creator, "ways": ("env",), "boot_offset": SINCE - 1000, "namespace": "pid:[1]"}
    return Lease(container_id=container_id, since=since, gpus=gpus, boot_id=boot_id, **fields, **more)


def month(state, name="2026-11"):
    return f"{state.history_directory}/{name}.jsonl"


def lines(state):
    with open(month(state), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line != "\n"]


def used(state):
    return sorted(read_history(state, **ALL), key=lambda each: each.since)


def test_a_reservation_that_ended_is_a_line_of_the_month_in_which_it_began(state):
    lease = a_lease(vram_mb=8000)
    state.write_lease(lease)

    finish(state.history_directory, state.lease_path(lease.key), "program", end=1090.5)

    assert lines(state) == [
        {
            "version": 1,
            "boot_id": "this",
            "start": 1000.0,
            "id": "c1",
            "root": "",
            "since": SINCE,
            "ways": ["env"],
            "person": None,
            "vram_mb": 8000,
            "part_of": "",
            "gpus": [GPU],
            "end": 1090.5,
            "how": "program",
        }
    ]
    assert os.listdir(f"{state.history_directory}/open") == []


def test_the_wall_clock_may_be_set_while_a_reservation_runs(state):
    # Two hours later by the clock, ten seconds later in truth.
    state.write_lease(a_lease())

    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)

    assert [(each.since, each.seconds) for each in used(state)] == [(SINCE, 10.0)]


def test_a_container_that_gets_more_gpus_has_them_in_its_line(state):
    state.write_lease(a_lease())
    state.write_lease(a_lease(gpus=(GPU, OTHER)))

    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)

    assert [each.gpu_seconds for each in used(state)] == [20.0]


def test_a_sample_stays_in_the_line_when_the_lease_is_written_again(state):
    state.write_lease(a_lease())
    path = open_path(state.history_directory, state.lease_path(("", "c1")))
    with open(path, "r+", encoding="utf-8") as file:
        text = file.read().rstrip("\n")
        file.seek(0)
        file.write(f'{text},"last":1005.0,"looks":2,"busy_sum":1.5,"peak_bytes":7,"name":"n","image":"i"\n')

    state.write_lease(a_lease().replace(init=ProcessId(pid=7, start=7)))
    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)

    (each,) = used(state)
    assert (each.busy, each.peak_bytes, each.name, each.image) == (0.75, 7, "n", "i")


def book_of(state):
    """The book of the boot in which `a_lease` is made."""
    processes = SimpleNamespace(boot_id="this")
    return Book(state, processes, LibraryLock)


def gpu_used_by(container, *busy):
    """Return a GPU that these processes of a container keep busy for so many percent of the time."""
    no_bytes = {"vram_bytes": 0, "gtt_bytes": 0, "compute_units": 0, "sdma_us": 0}
    found = tuple(UserProcess(pid=pid, name="python3", busy_percent=each, **no_bytes) for pid, each in enumerate(busy))
    user = GpuUser(container_id=container, name="train", engine="docker", is_tracked=True, since=SINCE, processes=found)
    return SimpleNamespace(users=(user,))


def test_the_load_of_a_reservation_is_the_mean_of_its_gpus(state):
    state.write_lease(a_lease(gpus=(GPU, OTHER)))
    # A GPU is never more than 100 percent busy.
    gpus = (gpu_used_by("c1", 80, 70), gpu_used_by("c1", 50, None))

    add_sample(book_of(state), SimpleNamespace(gpus=gpus))
    add_sample(book_of(state), SimpleNamespace(gpus=gpus[1:]))

    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)
    (each,) = used(state)
    # The mean of 100 and 50 percent, and of 0 and 50.
    assert (each.busy, each.name) == (0.5, "train")


def test_after_a_power_cut_a_reservation_ends_with_its_last_sample(state):
    state.write_lease(a_lease(boot_id="before"))
    path = open_path(state.history_directory, state.lease_path(("", "c1")))
    text = Path(path).read_text(encoding="utf-8").rstrip("\n")
    Path(path).write_text(f'{text},"last":1060.0,"looks":2,"busy_sum":1,"peak_bytes":1\n', encoding="utf-8")
    os.unlink(state.lease_path(("", "c1")))

    settle(book_of(state))

    (each,) = used(state)
    assert (each.how, each.seconds, each.is_certain) == ("power", 60.0, False)


def test_a_reservation_whose_end_nobody_wrote_is_found_over(state):
    state.write_lease(a_lease())
    os.unlink(state.lease_path(("", "c1")))
    state.write_lease(a_lease("c2"))

    settle(book_of(state))

    assert [(each.container_id, each.how) for each in used(state)] == [("c2", "running"), ("c1", "found")]


def test_a_reservation_that_is_found_over_ended_when_it_was_last_seen_alive(state):
    state.write_lease(a_lease())
    path = open_path(state.history_directory, state.lease_path(("", "c1")))
    text = Path(path).read_text(encoding="utf-8").rstrip("\n")
    Path(path).write_text(f'{text},"last":1060.0,"looks":2,"busy_sum":1,"peak_bytes":1\n', encoding="utf-8")

    state.remove_lease(state.lease_path(("", "c1")))

    (each,) = used(state)
    assert (each.how, each.seconds, each.is_certain) == ("found", 60.0, False)


def test_a_kill_between_the_line_and_the_removal_leaves_one_line(state):
    state.write_lease(a_lease())
    path = open_path(state.history_directory, state.lease_path(("", "c1")))
    begun = Path(path).read_text(encoding="utf-8")
    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)
    Path(path).write_text(begun, encoding="utf-8")
    os.unlink(state.lease_path(("", "c1")))

    settle(book_of(state))

    assert [each.how for each in used(state)] == ["hook"]


def test_a_full_disk_loses_a_line_and_no_release(state):
    # A directory in place of the file: no line can be written.
    os.mkdir(month(state))
    state.write_lease(a_lease())

    state.remove_lease(state.lease_path(("", "c1")))

    assert not os.path.exists(state.lease_path(("", "c1")))
    assert read_failures(state.run_directory) == {
        "history": f"{state.history_directory} cannot be written: it is a directory"
    }


def test_a_failure_is_noted_until_the_history_works_again(state):
    os.mkdir(month(state))
    state.write_lease(a_lease())
    state.remove_lease(state.lease_path(("", "c1")))
    os.rmdir(month(state))

    state.write_lease(a_lease("c2"))

    assert read_failures(state.run_directory) == {}


def test_a_line_that_was_cut_off_spoils_no_other(state):
    with open(month(state), "w", encoding="utf-8") as file:
        file.write('\n{"version":1,"boot_id":"th')
    state.write_lease(a_lease())

    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)

    found = list(read_history(state, **ALL))
    assert (found[0], found[1].seconds) == (None, 10.0)


def test_months_that_are_too_old_are_removed(state):
    for name in ("2025-01", "2026-10", "2026-11"):
        Path(month(state, name)).touch()

    remove_old(state, days=30, now=SINCE)

    assert sorted(os.listdir(state.history_directory)) == ["2026-10.jsonl", "2026-11.jsonl", "open"]


def test_a_month_is_removed_on_the_day_on_which_its_end_is_too_old(state):
    Path(month(state, "2026-11")).touch()
    december = calendar.timegm((2026, 12, 30, 23, 59, 59))

    remove_old(state, days=30, now=december)
    assert os.path.exists(month(state, "2026-11"))

    remove_old(state, days=30, now=december + 1)
    assert not os.path.exists(month(state, "2026-11"))


def test_gpu_hours_are_wall_time_times_gpus_over_thousands_of_reservations_with_kills_and_clock_steps(state):
    chance, expected, now = random.Random(34), 0.0, 1000.0
    running: dict[str, tuple[float, int]] = {}
    step = 0.0
    for number in range(int(os.environ.get("TRACKER_HISTORY_STEPS", "1500"))):
        now = round(now + chance.random() * 50, 2)
        step += chance.choice([0, 0, 0, 3600, -86400])
        if running and chance.random() < 0.5:
            name = chance.choice(sorted(running))
            begun, gpus = running.pop(name)
            expected += (now - begun) * gpus
            path = open_path(state.history_directory, state.lease_path(("", name)))
            before = Path(path).read_text(encoding="utf-8")
            finish(state.history_directory, state.lease_path(("", name)), "hook", end=now)
            if chance.random() < 0.1:
                # Killed before the file was removed; whoever comes next ends it once more, later.
                Path(path).write_text(before, encoding="utf-8")
                finish(state.history_directory, state.lease_path(("", name)), "found", end=now + 7)
            os.unlink(state.lease_path(("", name)))
        else:
            name, gpus = f"c{number}", (GPU, OTHER)[: chance.choice([1, 2])]
            offset = SINCE - 1000 + step
            lease = a_lease(name, since=now + offset, gpus=gpus).replace(boot_offset=offset)
            state.write_lease(lease)
            running[name] = (now, len(gpus))

    total = sum(each.gpu_seconds for each in read_history(state, **ALL) if each.how != "running")
    assert total == pytest.approx(expected, abs=0.01)


HOSTILE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    st.lists,
    max_leaves=4,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from([*json.loads(format_begun(a_lease()) + "}"), "end", "how", "looks"]), HOSTILE))
def test_a_hostile_line_is_a_reservation_or_a_value_error(changes):
    fields = {**json.loads(format_begun(a_lease()) + "}"), "end": 1010.0, "how": "hook", **changes}

    try:
        parsed = parse_line(json.dumps(fields).encode())
    except ValueError:
        return
    assert 0 <= parsed.seconds < 1e12


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_no_reservation(content):
    assert is_refused(content)


def is_refused(content):
    try:
        parse_line(content)
    except ValueError:
        return True
    return False


ENDED = {**json.loads(format_begun(a_lease()) + "}"), "end": 1010.0, "how": "hook"}
LOOKED = {"last": 1000.5, "looks": 2, "busy_sum": 0.5, "peak_bytes": 1 << 30, "name": "job", "image": "rocm/x"}
# Lines of versions before this field lack it.
IN_POD = {"pod": "team-a/train-0"}
NEARLY = st.one_of(
    st.sampled_from(["", "a", 'b"c', "é", "\x1b", "power", "hook", None, True, [], [""], ["env", "api"], ['","'], "9"]),
    st.integers(-1, 1 << 70),
    st.floats(0, 1e13, allow_nan=False),
    st.lists(st.text(max_size=3), max_size=3),
)


@settings(deadline=None, max_examples=500)
@given(
    fields=st.sampled_from([ENDED, {**ENDED, **LOOKED}, {**ENDED, **LOOKED, **IN_POD}]),
    changes=st.dictionaries(st.sampled_from([*ENDED, *LOOKED, *IN_POD]), NEARLY),
    data=st.data(),
)
def test_a_line_says_the_same_read_with_others_and_alone(fields, changes, data):
    text = json.dumps(
        {**fields, **{key: value for key, value in changes.items() if key in fields}}, separators=(",", ":")
    )
    at = data.draw(st.integers(0, len(text)))
    line = data.draw(st.sampled_from([text, text[:at] + text[at + 1 :], text[:at] + "0" + text[at:]])).encode()

    assert [*parse_lines(b"\n" + line + b"\n\n")] == [None if is_refused(line) else parse_line(line)]


def test_a_sample_notes_the_pod_of_a_container_by_what_its_engine_wrote(state, tmp_path):
    annotations = {"io.kubernetes.cri.sandbox-namespace": "team-a", "io.kubernetes.cri.sandbox-name": "train-0"}
    Path(tmp_path / "config.json").write_text(json.dumps({"annotations": annotations}), encoding="utf-8")
    state.write_lease(a_lease(bundle=str(tmp_path)))
    add_sample(book_of(state), SimpleNamespace(gpus=[]))
    # The engine removes the bundle with the container.
    os.unlink(tmp_path / "config.json")
    add_sample(book_of(state), SimpleNamespace(gpus=[]))

    finish(state.history_directory, state.lease_path(("", "c1")), "hook", end=1010.0)

    line = Path(month(state)).read_bytes().strip()
    assert [each.pod for each in (*used(state), parse_line(line))] == ["team-a/train-0"] * 2


def test_a_line_without_end_is_read_in_pieces_that_fit(state):
    with open(month(state), "wb") as file:
        file.write(b"x" * (3 * LONGEST_HISTORY_LINE))

    assert list(read_history(state, **ALL)) == [None, None]
