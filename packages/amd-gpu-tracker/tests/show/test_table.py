"""How status says times."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.show.table import format_age


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 seconds ago"),
        (0.4, "0 seconds ago"),
        (1, "1 second ago"),
        (59.9, "59 seconds ago"),
        (60, "1 minute ago"),
        (7199, "1 hour ago"),
        (7200, "2 hours ago"),
        (86400 * 400, "400 days ago"),
    ],
)
def test_how_long_ago_something_was_is_said_in_one_unit(seconds, said):
    assert format_age(seconds) == said
