"""The commands are made one by one, and what --help says of them is what they say of themselves."""

from __future__ import annotations

import re

import pytest
import typer

from amd_ctk.cli.root import app
from amd_ctk.cli.tree import HELP_BY_COMMAND, HIDDEN, Commands
from amd_ctk.companions import COMMANDS, SHARING
from amd_gpu_sharing.cli.program import make_app

ROOT = typer.main.get_command(app)


@pytest.mark.parametrize("name", HELP_BY_COMMAND)
def test_the_line_of_a_command_is_its_own(name):
    command = Commands()[name]

    assert command.name == name
    assert command.get_short_help_str(limit=200).rstrip(".") == HELP_BY_COMMAND[name].rstrip(".")


def test_each_command_of_a_companion_is_in_the_help_or_an_earlier_name():
    assert sorted({*COMMANDS} - {*HELP_BY_COMMAND} - {*HIDDEN}) == []


@pytest.mark.parametrize("name", [name for name, (_, companion) in COMMANDS.items() if companion == SHARING])
def test_a_command_of_sharing_is_one_of_its_own_program(name):
    assert name in typer.main.get_command(make_app()).commands


def all_commands(command, words=()):
    for name, child in command.commands.items():
        if not child.hidden:
            yield " ".join([*words, name]), child
            if hasattr(child, "commands"):
                yield from all_commands(child, (*words, name))


@pytest.mark.parametrize(("group", "name"), [("config", "compile"), ("usage", "sample")])
def test_a_command_that_only_programs_call_is_not_in_the_help(amd_ctk, host, group, name):
    host()

    assert f" {name} " not in amd_ctk(group, "--help").stdout
    assert f"{group} {name}" in amd_ctk(group, name, "--help").stdout


def test_every_summary_is_whole_in_80_columns():
    summaries = {words: command.get_short_help_str(limit=200) for words, command in all_commands(ROOT)}

    assert {words: text for words, text in summaries.items() if len(text) > 50} == {}


def test_every_example_is_whole_in_80_columns():
    lines = [
        line
        for words, command in all_commands(ROOT)
        for line in command.get_help(typer.Context(command, info_name=words)).partition("Examples:")[2].splitlines()
    ]

    assert "  sudo amd-ctk cdi generate --output=/etc/cdi/lab.json --vendor=lab.example" in lines
    # AMD's help of the tracker has one longer line in front of its examples.
    assert [line for line in lines if len(line) > 80] == []


def test_every_line_of_help_is_whole_in_80_columns():
    lines = [
        line
        for words, command in all_commands(ROOT)
        for line in command.get_help(typer.Context(command, info_name=words, terminal_width=80)).splitlines()
    ]

    # AMD's own line.
    listed = "    gpu-ids        Comma-separated list of GPU IDs (comma separated list, range operator, all)"
    assert {line for line in lines if len(line) > 80} == {listed}


def test_the_value_of_every_option_is_called_by_a_word():
    helps = {words: command.get_help(typer.Context(command, info_name=words)) for words, command in all_commands(ROOT)}

    assert {words: text for words, text in helps.items() if re.search(r"<(str|int|float|list|tuple|TEXT)", text)} == {}
    assert {words: text for words, text in helps.items() if re.search(r"\b(TEXT|INTEGER|FLOAT)\b", text)} == {}
    # Ranges, as [x>=1], and braces around what is required.
    assert {words: text for words, text in helps.items() if re.search(r"\bx[<>]|[<>]=?x\b", text)} == {}
    assert {words: text for words, text in helps.items() if "{" in text.partition("\n")[0]} == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--count=0", "--", "true"), "'--count': 0 is not a whole number of at least 1"),
        (("run", "--at-once=two", "--", "true"), "'--at-once': 'two' is not a whole number of at least 1"),
        (("users", "allow", "alice", "--gpus=1025"), "'--gpus': 1025 is not a whole number from 0 to 1024"),
        (("cdi", "watch", "--interval=0"), "'--interval': '0' is not a number of seconds, at least 0.1"),
        (("cdi", "watch", "--interval=nan"), "'--interval': 'nan' is not a number of seconds, at least 0.1"),
    ],
)
def test_a_number_out_of_its_limits_is_refused_in_words(amd_ctk, host, words, message):
    host()

    refused = amd_ctk(*words)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == f"Error: Invalid value for {message}"


def test_commands_stand_in_groups_and_none_is_cut(amd_ctk):
    lines = amd_ctk("--help", COLUMNS="80").stdout.splitlines()

    assert [line for line in lines[2:] if line.endswith(":") and line[0] != " "] == [
        *("Containers:", "This host:", "Engines and clusters:", "Settings:")
    ]
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage")]
    assert "  run          Run a command with GPUs reserved for it" in lines
    assert "  image        Check whether images fit; pick one" in lines
    assert lines[-1] == "Options: --version, --simulate PROFILE, --debug, --install-completion, --help"


def test_a_misspelt_option_of_run_is_answered_with_the_option(amd_ctk, host):
    host()

    refused = amd_ctk("run", "--gpu=1", "--", "true")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--gpus" in refused.stderr.splitlines()[-1]


def test_a_command_is_made_once():
    commands = Commands()

    assert commands["gpu"] is commands["gpu"]


def test_a_word_that_is_no_command_is_none():
    assert Commands().get("gpux") is None
    assert "gpux" not in Commands()
    assert len(Commands()) == len(list(Commands())) == 21
