"""What is waited for shares one time."""

from __future__ import annotations

import pytest

from amd_ctk.doctor.facts.all import seconds_left


@pytest.mark.parametrize(("waited", "left"), [(0.0, 8.0), (0.5, 7.5), (7.9, 0.3), (60.0, 0.3)])
def test_an_engine_that_does_not_answer_leaves_a_container_less_time(waited, left):
    assert seconds_left(waited) == left
