"""Lines that are too long for a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amd_ctk.wrapped import wrap_lines

LINE = "docker-file  bad          the runtime amd is not in /etc/docker/daemon.json, so Docker does not know it"


def test_a_long_line_continues_below_its_last_column():
    assert wrap_lines(f"kfd  ok\n{LINE}", 60) == (
        "kfd  ok\n"
        "docker-file  bad          the runtime amd is not in\n"
        "                          /etc/docker/daemon.json, so Docker\n"
        "                          does not know it"
    )


def test_a_long_path_goes_further_to_the_left_and_is_not_broken():
    line = "cdi-spec  bad          the file /var/lib/containers/a-very-long-name/amd.json is old"

    assert wrap_lines(line, 50) == (
        "cdi-spec  bad          the file\n     /var/lib/containers/a-very-long-name/amd.json\n     is old"
    )


def test_a_command_stays_whole_for_those_who_copy_it():
    command = "                          fix: sudo amd-ctk runtime configure --runtime=docker --restart"

    assert wrap_lines(command, 60) == command


@given(st.lists(st.text("ab -/", max_size=30)).map("".join), st.integers(10, 80))
def test_no_word_is_broken_or_lost(text, width):
    wrapped = wrap_lines(text, width)

    assert wrapped.split() == text.split()
    longest = max(map(len, text.split()), default=0)
    assert all(len(line) <= max(width, longest) for line in wrapped.split("\n"))
