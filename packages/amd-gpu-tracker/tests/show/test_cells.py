"""How much room names take, and how they are shortened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.show.cells import count_cells, pad, shorten


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
def test_what_is_shortened_fits(text, width, mark):
    shortened = shorten(text, width, mark)

    assert count_cells(shortened) <= width
    assert shortened == text or mark in shortened
