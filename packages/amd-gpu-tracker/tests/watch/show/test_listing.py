"""Lists that fit: which columns stay, and how names are shortened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.watch.show.listing import (
    Column,
    Listing,
    count_cells,
    crop_columns,
    cut_id,
    fit_columns,
    format_fixed,
    format_listing,
    pad,
    shorten,
)

COLUMNS = (
    Column(header="GPU Id"),
    Column(header="Name", least=12),
    Column(header="Since", yields=2),
    Column(header="By", yields=1),
)
WIDTHS = (6, 40, 19, 10)


def test_all_is_shown_where_it_fits():
    assert fit_columns(COLUMNS, WIDTHS, 81) == {0: 6, 1: 40, 2: 19, 3: 10}


def test_names_are_shortened_before_a_column_is_left_out():
    assert fit_columns(COLUMNS, WIDTHS, 80) == {0: 6, 1: 39, 2: 19, 3: 10}
    assert fit_columns(COLUMNS, WIDTHS, 53) == {0: 6, 1: 12, 2: 19, 3: 10}


def test_columns_are_left_out_in_the_order_in_which_they_yield():
    assert fit_columns(COLUMNS, WIDTHS, 52) == {0: 6, 1: 23, 2: 19}
    assert fit_columns(COLUMNS, WIDTHS, 40) == {0: 6, 1: 32}


def test_columns_that_would_lose_something_get_room_before_those_that_wrap():
    columns = (Column(header="Who", least=16), Column(header="Processes", least=18, wraps=True))

    assert fit_columns(columns, (21, 34), 41) == {0: 21, 1: 18}
    assert fit_columns(columns, (21, 34), 46) == {0: 21, 1: 23}


def test_a_column_that_never_yields_is_shown_where_even_that_does_not_fit():
    assert fit_columns(COLUMNS, WIDTHS, 10) == {0: 6, 1: 12}


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9), st.integers(0, 20)), min_size=1), st.integers(1, 200))
def test_a_list_that_can_fit_fits(asked, room):
    columns = [Column(header="H", yields=yields, least=least) for _, yields, least in asked]
    widths = [width for width, _, _ in asked]

    fitted = fit_columns(columns, widths, room)

    always = [min(width, max(1, least)) if least else width for width, yields, least in asked if not yields]
    if sum(always) + 2 * (len(always) - 1) <= room:
        assert sum(fitted.values()) + 2 * (len(fitted) - 1) <= room
    assert all(fitted[at] <= widths[at] for at in fitted)


def test_a_text_at_the_edge_of_a_screen_is_cropped_and_a_number_is_not():
    columns = (Column(header="GPU"), Column(header="Who"), Column(header="Busy", is_number=True))

    assert crop_columns(columns, {0: 3, 1: 10, 2: 4}, 21) == {0: 3, 1: 10, 2: 4}
    assert crop_columns(columns, {0: 3, 1: 10, 2: 4}, 20) == {0: 3, 1: 10}
    assert crop_columns(columns, {0: 3, 1: 10, 2: 4}, 9) == {0: 3, 1: 4}
    assert crop_columns(columns, {0: 3, 1: 10, 2: 4}, 8) == {0: 3}
    assert crop_columns(columns, {0: 3, 1: 10, 2: 4}, 2) == {0: 2}


def test_a_screen_has_another_column_in_place_of_a_number_that_is_too_long():
    columns = (Column(header="GPU"), Column(header="VRAM used", is_whole=True), Column(header="Busy", is_number=True))

    assert crop_columns(columns, {0: 3, 1: 16, 2: 4}, 20) == {0: 3, 2: 4}


def test_ids_of_containers_are_cut_and_names_are_not():
    assert cut_id("36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8") == "36b012bb34c9"
    assert cut_id("a-name-that-is-as-long-as-an-id-but-has-letters-that-no-id-has-x") != "a-name-that-"


def test_outside_of_a_terminal_a_list_is_whole():
    listing = Listing(
        columns=(Column(header="Name", least=4), Column(header="GiB", is_number=True)),
        rows=(("training.1.x8f3k2j5l6m7", "64.0"), ("\x1b[2J", "-")),
    )

    assert format_listing(listing) == (
        "-----------------------------\n"
        "Name                      GiB\n"
        "-----------------------------\n"
        "training.1.x8f3k2j5l6m7  64.0\n"
        "?[2J                        -"
    )


def test_a_text_that_is_longer_than_its_column_is_not_glued_to_the_next():
    rows = [("Name", "Id"), ("abcdefgh", "b"), ("abcdefghijklm", "b"), ("a\x1b", "")]

    assert format_fixed(rows, [10, 4]) == [
        "--------------",
        "Name      Id",
        "--------------",
        "abcdefgh  b",
        "abcdefghijklm  b",
        "a?",
    ]


def test_characters_of_two_cells_do_not_move_the_next_column():
    listing = Listing(
        columns=(Column(header="Name"), Column(header="GiB", is_number=True)),
        rows=(("訓練-1", "1.0"), ("a\u0301", "0.5")),
    )

    assert format_listing(listing) == ("-----------\nName    GiB\n-----------\n訓練-1  1.0\na\u0301       0.5")
    assert format_fixed([("訓練", "b")], [10, 4], rule=3) == ["---", "訓練      b", "---"]


@pytest.mark.parametrize(
    ("text", "cells"), [("web", 3), ("訓練", 4), ("🚀", 2), ("\uff41", 2), ("e\u0301", 1), ("é", 1)]
)
def test_a_text_takes_the_cells_of_its_characters(text, cells):
    assert count_cells(text) == cells
    assert pad(text, 5) == text + " " * (5 - cells)
    assert pad(text, 5, on_left=True) == " " * (5 - cells) + text


def test_a_name_loses_its_middle():
    assert shorten("training.1.x8f3k2j5l6m7", 13, "…") == "traini…j5l6m7"
    assert shorten("training.1", 10, "…") == "training.1"
    assert shorten("training.1.x8f3k2j5l6m7", 13, "..") == "traini..5l6m7"


def test_the_last_word_stays_whole_beside_a_shortened_name():
    assert shorten("training-of-the-large-model (docker)", 16, "…") == "traini… (docker)"
    assert shorten("training-of-the-large-model 3121", 16, "…") == "training…el 3121"


def test_wide_characters_are_cut_by_their_cells():
    assert shorten("大規模言語モデルの訓練 (docker)", 16, "…") == "大規模… (docker)"
    assert shorten("訓練訓練訓練", 7, "…") == "訓練…練"


@given(st.text(), st.integers(3, 100), st.sampled_from(["…", ".."]))
def test_a_shortened_text_fits(text, width, mark):
    shortened = shorten(text, width, mark)

    assert count_cells(shortened) <= width
    assert shortened == text or mark in shortened
