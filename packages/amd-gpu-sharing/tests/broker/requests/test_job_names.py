"""With private names nobody reads what others call their jobs, and everybody uses the own names."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.job_names import JobNames
from amd_gpu_sharing.broker.requests.protocol import CANCEL, END, KEEP, RELEASE, RESERVE, RUN, Request
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from support.shared_host import ALICE, BOB, run, users, wait_until

WORD = r"job-[0-9a-f]{10}"


@pytest.fixture
def private(broker):
    """Return a broker on a host with private names."""
    broker.has_private_names = True
    broker.set_terms("fifo", "everyone")
    return broker


def reserve(name: str, gpus: str) -> Request:
    return Request(verb=RESERVE, name=name, gpus=gpus, seconds=3600)


def files_of(host) -> str:
    """Return what everybody can read, names of files and their contents."""
    found = [path for path in Path(host.root, "run/amd-container-toolkit").rglob("*") if path.is_file()]
    readable = [path for path in found if path.stat().st_mode & stat.S_IROTH]
    return "\n".join(f"{path} {path.read_text(encoding='utf-8', errors='replace')}" for path in readable)


def test_no_file_and_no_message_has_the_name(host, private, person):
    alice = person(ALICE, run("thesis-on-x", "0"))
    assert alice.line() == "got (0,)"
    assert person(ALICE, reserve("secret-plan", "1")).line() == "got (1,)"
    waiting = person(ALICE, run("hidden-too", "0"))
    waiting.line()

    bob = person(BOB, run("mine", "0"))

    assert re.fullmatch(
        rf"waiting for 1 GPU: 0 free of 1 that fits, 1 job before this one \(40001's {WORD}: 1 GPU\);"
        rf" GPU 0: 40001's {WORD} since 12:00",
        bob.line(),
    )
    assert [re.fullmatch(f"40001/{WORD}", job) is not None for jobs in users(host).values() for job in jobs] == [
        True
    ] * 2
    assert not re.search("thesis|secret-plan|hidden-too|mine", files_of(host))


def test_the_owner_of_a_name_uses_it(private, person):
    assert person(ALICE, reserve("debug", "1")).line() == "got (1,)"
    job = person(ALICE, run("inside", "", reservation="debug"))
    assert job.line() == "got (1,)"
    job.end()
    assert person(ALICE, Request(verb=KEEP, name="debug", seconds=7200)).line() == "got ()"
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == "got ()"
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == (
        "11: you have no reservation debug (see 'amd-ctk queue')"
    )


def test_two_people_have_two_words_for_one_name(host, private, person):
    person(ALICE, run("train", "0")).line()
    person(BOB, run("train", "1")).line()

    assert len({job.partition("/")[2] for jobs in users(host).values() for job in jobs}) == 2


def test_root_and_its_owner_take_a_job_out_by_the_word_of_the_list(host, private, person):
    person(ALICE, run("first", "0")).line()
    bobs = [person(BOB, run(name, "0")) for name in ("late", "later")]
    for each in bobs:
        each.line()
    late, later = [ticket.name for ticket in Tracker(host).waiting()]

    assert person(0, Request(verb=CANCEL, name=late)).line() == "got ()"
    assert person(BOB, Request(verb=CANCEL, name=later)).line() == "got ()"

    assert [each.line()[:4] for each in bobs] == ["12: ", "12: "]


def test_a_job_that_began_before_private_names_keeps_its_name(host, broker, person):
    person(ALICE, reserve("debug", "1")).line()
    broker.has_private_names = True
    broker.set_terms("fifo", "everyone")

    assert person(ALICE, reserve("debug", "2")).line().startswith("9: 40001/debug already has GPUs")
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == "got ()"
    assert users(host) == {}


def test_a_job_with_a_private_name_is_found_when_names_are_public_again(host, private, person):
    person(ALICE, reserve("debug", "1")).line()
    waiting = person(ALICE, run("train", "1"))
    waiting.line()
    private.has_private_names = False
    private.set_terms("fifo", "everyone")
    private.kill()
    private.start()
    # It connects again.
    wait_until(lambda: "\n".join(private.lines()).count("is the job train of user 40001") == 2)

    assert len(Tracker(host).waiting()) == 1
    assert person(ALICE, reserve("debug", "2")).line().startswith("9: 40001/job-")
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == "got ()"
    assert waiting.answer() == "got (1,)"
    assert person(ALICE, reserve("other", "2")).line() == "got (2,)"
    assert "40001/other" in users(host)[2]


def test_a_reservation_that_was_made_with_sudo_is_found_by_its_name(host, private, person):
    person(0, reserve("debug", "0").replace(behind=ALICE)).line()
    ((word,),) = users(host).values()

    belongs = f"3: the reservation {word} belongs to root, because it was made with sudo (run the command with sudo)"
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == belongs
    assert person(ALICE, run("lab", "", reservation="debug")).line() == belongs
    assert person(ALICE, Request(verb=KEEP, name="debug", seconds=7200)).line() == "got ()"
    assert person(ALICE, Request(verb=END, name="debug")).line() == "got ()"
    wait_until(lambda: users(host) == {})


def test_a_job_that_was_begun_with_sudo_is_found_by_its_name(host, private, person):
    person(0, run("train", "0", behind=ALICE), command=("sleep", "600")).line()

    assert person(ALICE, Request(verb=KEEP, name="train", seconds=60)).line() == "got ()"
    assert person(0, Request(verb=KEEP, name="train", owner=ALICE, seconds=60)).line() == "got ()"


@pytest.mark.parametrize("verb", [KEEP, RELEASE, END])
def test_a_reservation_made_with_sudo_is_hidden_from_other_users(private, person, verb):
    asked = Request(verb=verb, name="debug", seconds=60)
    told = person(BOB, asked).line()

    person(0, reserve("debug", "0").replace(behind=ALICE)).line()

    assert person(BOB, asked).line() == told


def test_the_journal_tells_root_which_word_is_which(host, private, person):
    person(ALICE, run("train", "0")).line()
    (job,) = users(host)[0]

    private.wait_for_line(f"named: {job.partition('/')[2]} is the job train of user 40001")


def test_words_outlive_the_broker_and_only_root_reads_the_secret(host, private, person):
    person(ALICE, reserve("debug", "1")).line()
    private.kill()
    private.start()

    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == "got ()"
    secret = Path(host.root, "run/amd-container-toolkit/job-names.secret").stat()
    assert (stat.S_IMODE(secret.st_mode), secret.st_uid, secret.st_size) == (0o600, 0, 32)


def test_another_secret_makes_other_words(host, tmp_path):
    def word(directory):
        names = JobNames(State(host, str(directory)), lambda *_: False)
        names.are_private = True
        return names.hide(Request(verb=RUN, name="train"), ALICE, ALICE).name

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert word(tmp_path / "a") == word(tmp_path / "a") != word(tmp_path / "b")
