"""The commands are made one by one, and what --help says of them is what they say of themselves."""

from __future__ import annotations

import pytest

from amd_ctk.cli.tree import HELP_BY_COMMAND, Commands


@pytest.mark.parametrize("name", HELP_BY_COMMAND)
def test_the_line_of_a_command_is_its_own(name):
    command = Commands()[name]

    assert command.name == name
    assert command.get_short_help_str(limit=200).rstrip(".") == HELP_BY_COMMAND[name].rstrip(".")


def test_a_command_is_made_once():
    commands = Commands()

    assert commands["gpu"] is commands["gpu"]


def test_a_word_that_is_no_command_is_none():
    assert Commands().get("gpux") is None
    assert "gpux" not in Commands()
    assert len(Commands()) == len(list(Commands())) == 18
