"""What is drawn of a page on screens of all sizes."""

from __future__ import annotations

import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from amd_gpu_tracker.watch.show.listing import Column, Listing, Page
from amd_gpu_tracker.watch.show.watch_screen import draw_page

USAGE = Listing(
    columns=(
        Column(header="GPU", is_whole=True),
        Column(header="VRAM used", is_whole=True),
        Column(header="Busy", is_number=True),
        Column(header="Who", least=16),
        Column(header="Memory", yields=1, is_number=True),
    ),
    rows=(
        ("0", "41.2 of 64.0 GiB", "93 %", "大規模言語モデルの訓練 (docker)", "40.9 GiB"),
        ("", "", "", "(no container)", "0.3 GiB"),
        ("1", "0.0 of 64.0 GiB", "0 %", "-", ""),
    ),
)
NOTE = "1 process of another user could not be checked for GPU use; run the command with sudo"


def lines_of(page: Page, columns: int, rows: int) -> list[str]:
    console = Console(width=columns, height=rows, file=io.StringIO(), highlight=False, markup=False, emoji=False)
    console.print(draw_page("GPU usage", page, console))
    shown = console.file.getvalue().rstrip("\n")
    return [re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", line).rstrip() for line in shown.split("\n")]


def test_a_list_that_fits_has_its_notes_below_it():
    assert lines_of(Page(shown=USAGE, notes=(NOTE,)), 70, 12)[1:] == [
        "",
        "-" * 70,
        "GPU  VRAM used         Busy  Who                                Memory",
        "-" * 70,
        "0    41.2 of 64.0 GiB  93 %  大規模言語モデルの訓練 (docker)  40.9 GiB",
        "                             (no container)                    0.3 GiB",
        "1    0.0 of 64.0 GiB    0 %  -",
        "1 process of another user could not be checked for GPU use; run the",
        "command with sudo",
    ]


def test_notes_take_a_part_of_a_screen_that_is_full():
    assert lines_of(Page(shown=USAGE, notes=(NOTE, NOTE)), 70, 8)[5:] == [
        "... 3 more lines",
        "1 process of another user could not be checked for GPU use; run the",
        "... 3 more lines of notes",
    ]


def test_a_narrow_screen_leaves_columns_out_and_shortens_names():
    assert lines_of(Page(shown=USAGE), 45, 12)[2:] == [
        "-" * 45,
        "GPU  VRAM used         Busy  Who",
        "-" * 45,
        "0    41.2 of 64.0 GiB  93 %  大規模… (docker)",
        "                             (no container)",
        "1    0.0 of 64.0 GiB    0 %  -",
    ]


def test_a_low_screen_has_no_rules():
    assert lines_of(Page(shown=USAGE), 20, 5) == [
        "GPU usage   hh:mm:ss",
        "GPU  Busy  Who",
        "0    93 %  大規…ker)",
        "           (no …ner)",
        "1     0 %  -",
    ]


def test_the_lowest_screen_has_no_title():
    assert lines_of(Page(shown=USAGE), 30, 3) == [
        "GPU  VRAM used         Busy",
        "0    41.2 of 64.0 GiB  93 %",
        "1    0.0 of 64.0 GiB    0 %",
    ]


def test_a_sentence_has_the_title_above_it():
    assert lines_of(Page(shown="GPU Tracker is disabled"), 40, 24)[1:] == ["", "GPU Tracker is disabled"]


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 90), st.integers(1, 12))
def test_no_number_is_cropped_on_a_screen_of_any_size(columns, rows):
    lines = lines_of(Page(shown=USAGE), columns, rows)

    assert all(cell_len(line) <= columns for line in lines)
    rest = " ".join(lines)
    for whole in ("41.2 of 64.0 GiB", "0.0 of 64.0 GiB", "40.9 GiB", "0.3 GiB", "93 %", "0 %"):
        rest = rest.replace(whole, "")
    assert not {"GiB", "%", "of", "64.0"} & set(rest.split())
