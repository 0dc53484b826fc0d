"""What people type on a machine and what they read, as a text that tests run.

alice$ COMMAND          a command, typed by alice
OUTPUT                  all that it prints; `...` as on pages (see support/transcripts.py)
[CODE]                  its exit code, unless 0
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from support.transcripts import Step, is_match

if TYPE_CHECKING:
    from support.shell import Shell

PROMPT = re.compile(r"(?P<user>[a-z]+)\$ (?P<command>.+)")
CODE = re.compile(r"\[(?P<code>\d+)\]")
# The client of Docker 20.10 logs this at some refusals, before or after what it says.
LOGGED = re.compile(r'^time="[^"]+" level=error msg="error waiting for container: context canceled"\n', re.MULTILINE)


def parse_typed(text: str) -> list[tuple[str, Step]]:
    """Return who types what, and what is printed."""
    return list(_parse(text))


def _parse(text: str) -> Iterator[tuple[str, Step]]:
    blocks: list[tuple[str, str, int, list[str]]] = []
    for number, line in enumerate(text.strip("\n").split("\n"), 1):
        if typed := PROMPT.fullmatch(line):
            blocks.append((typed["user"], typed["command"], number, []))
        else:
            blocks[-1][3].append(line)
    for user, command, number, printed in blocks:
        code = CODE.fullmatch(printed[-1]) if printed else None
        output = "\n".join(printed[:-1] if code else printed)
        yield user, Step(command=command, line=number, expected=output, exit_code=int(code["code"]) if code else 0)


def check(shell: Shell, step: Step) -> None:
    """Type a command; AssertionError if output or exit code differ."""
    printed, code = shell.run(step.command)
    printed = LOGGED.sub("", printed)

    said = f"line {step.line}: $ {step.command}\n{printed}[{code}]"
    assert is_match(step.expected, printed), f"{said}\n--- but expected was:\n{step.expected}"
    assert code == step.exit_code, f"{said}\n--- but expected was [{step.exit_code}]"


def check_typed(shells: Mapping[str, Shell], text: str) -> None:
    """Type all commands of a text, each in its user's shell; AssertionError at the first that differs."""
    for user, step in parse_typed(text):
        check(shells[user], step)
