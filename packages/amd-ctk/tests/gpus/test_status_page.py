"""The page of `amd-ctk gpu page`."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from amd_ctk.gpus.status_page import format_status_page
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.watch.show.listing import Page as Seen
from amd_gpu_tracker.watch.states.text import list_states
from amdgpu_simulator.runs.breaking import break_gpu
from support.shared_host import put_ticket

# Elements that load something, or are a program.
ACTIVE = {"script", "img", "link", "iframe", "object", "embed", "form", "a", "base", "svg"}
HOSTILE = "</title></style></td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"


class Page(HTMLParser):
    """The elements of a page, its text, and the rows of its tables."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes, self.rows = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, text):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += text.strip("\n")


@pytest.fixture
def shared(host):
    """Return four GPUs: one reserved by a job, one sick, and a job that waits."""
    made = host("mi210-4")
    tracker = Tracker(made)
    tracker.enable()
    tracker.set_accessibility("all", exclusive=True)
    tracker.reserve("2", name="train")
    break_gpu(made, 3, "ras")
    put_ticket(made, "eval", "free:4", range(4))
    return made


def test_the_page_has_what_the_list_and_the_queue_have(shared, amd_ctk):
    answer = amd_ctk("gpu", "page")

    page = Page(answer.stdout)
    rows = {row[0]: row for row in page.rows}
    assert (answer.returncode, answer.stderr) == (0, "")
    assert page.rows[0][:5] == ["GPU", "State", "Who", "What", "Since"]
    assert (rows["0"][1], rows["2"][1], rows["2"][3]) == ("free", "reserved", "train")
    assert [row[1] for row in page.rows if row[1:3] == ["root", "eval"]] == ["root"]
    assert ["Person", "Name", "GPUs", "Numbers", "Process", "For"] in page.rows
    assert not page.elements & ACTIVE
    assert page.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class", "tabindex", "title"}


def test_the_page_is_written_to_a_file(shared, amd_ctk, tmp_path):
    answer = amd_ctk("gpu", "page", "-o", f"{tmp_path}/gpus.html")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert Path(tmp_path, "gpus.html").read_text().startswith("<!doctype html>\n")


def test_words_of_people_and_drivers_stay_text(shared):
    states = Tracker(shared).states()
    states = tuple(each.replace(what=HOSTILE, person=HOSTILE, model=HOSTILE) for each in states)
    rows = [["Person", "Name"], [HOSTILE, HOSTILE]]

    seen = Seen(shown=list_states(states, now=0.0), notes=(HOSTILE,), title=HOSTILE)

    page = Page(said := format_status_page(seen, [rows, rows], host=HOSTILE, now=0.0))

    assert not page.elements & ACTIVE
    assert "\x1b" not in said
    assert len(page.rows) == 5 + 2 + 2
    assert not re.search("<script|<img", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "--json"], "--html and --json exclude each other (leave out one of them)\n"),
        (["--html", "--watch"], "--html and --watch exclude each other (leave out one of them)\n"),
        (["-o", "page.html"], "--output needs --html (add --html)\n"),
    ],
)
def test_options_beside_the_page_are_refused(shared, amd_ctk, words, said):
    answer = amd_ctk("status", *words)

    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", said)
