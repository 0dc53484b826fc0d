"""Wrong lines, as people type them: each answer says what to write, or where to look.

WRITE_WRONG_LINES=1 writes the answers again, in one process; read what changed.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from amd_ctk.cli.instead import INSTEAD
from amd_ctk.cli.tree import Commands

KEPT = Path(__file__).with_name("wrong_lines.json")
LINES: dict[str, list[object]] = json.loads(KEPT.read_bytes())


def last_line(text):
    """Return the last line without what says that the host is a simulated one."""
    lines = [line for line in text.splitlines() if not line.startswith("Working on the simulated host")]
    return lines[-1] if lines else ""


def answer_to(line, amd_ctk):
    """Return the exit code, the last line of the errors, and the first line of the output, of a wrong line."""
    program, *words = shlex.split(line.removeprefix("sudo "))
    assert program == "amd-ctk"
    answer = amd_ctk(*words, COLUMNS="80")
    return [answer.returncode, last_line(answer.stderr), answer.stdout.partition("\n")[0]]


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line_has_its_answer(host, amd_ctk, line):
    host("mi210-4")

    answer = answer_to(line, amd_ctk)

    if "WRITE_WRONG_LINES" in os.environ:
        KEPT.write_text(json.dumps({**json.loads(KEPT.read_bytes()), line: answer}, indent=1) + "\n", encoding="utf-8")
    else:
        assert answer == LINES[line]


@pytest.mark.parametrize("line", sorted({each for each in INSTEAD.values() if "amd-ctk " in each}))
def test_a_line_that_is_advised_has_commands_and_options_that_exist(line):
    words = line.removeprefix("sudo ").partition(" -- ")[0].split()[1:]
    if words == ["--version"]:
        return
    command = Commands()[words.pop(0)]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]

    known = {name for parameter in command.params for name in parameter.opts}
    assert [word for word in words if word.startswith("-") and word.partition("=")[0] not in known] == []
