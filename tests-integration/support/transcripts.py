"""Read the commands that the documentation shows from its pages.

A page shows commands in fences of the language `console`: a line `$ COMMAND`, continued by a backslash or by lines that
begin with `> `, and below it all its output. Two comments add the rest:

    <!-- commands run on: mi210-4 -->           from here on, on a new simulated host; `with docker` runs the section
                                                where there is an engine, `in a clone` in a copy of the checkout
    <!-- exits: 4 -->                           the last command of the next fence ends with this code

A fence of the language `pycon` is a Python session with its prompts. It runs as a separate doctest.

In the output of a command, `...` stands for any text within a line and, alone on a line, for any lines. Blanks at the
end of a line do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*) *$")
PLACE = re.compile(r"^<!-- commands run on: (?P<profile>[\w-]+)(?P<engine> with docker)?(?P<clone> in a clone)? -->$")
EXITS = re.compile(r"^<!-- exits: (?P<code>\d+) -->$")


@dataclass(frozen=True)
class Step:
    """A command, the pattern of its output, and its exit code."""

    command: str
    line: int
    expected: str = ""
    exit_code: int = 0


@dataclass(frozen=True)
class Section:
    """Consecutive commands on one host; `profile` is "" if the page names none."""

    line: int
    profile: str = ""
    needs_docker: bool = False
    in_clone: bool = False
    steps: list[Step] = field(default_factory=list)


class BrokenPage(Exception):
    """A page has a command that cannot be run as shown."""


def parse_page(text: str) -> list[Section]:
    """Return the sections of a page with commands, in order; BrokenPage."""
    sections = [Section(line=1)]
    exit_code = 0
    for number, line, content in _blocks(text):
        place, exits = PLACE.match(line.strip()), EXITS.match(line.strip())
        if place:
            sections.append(_section(number, place))
        elif exits:
            exit_code = int(exits["code"])
        elif content is not None:
            sections[-1].steps.extend(_steps(number + 1, content, exit_code))
            exit_code = 0
        elif line.strip().startswith(("<!-- commands run", "<!-- exits")):
            raise BrokenPage(f"line {number}: not understood: {line.strip()}")
    return [section for section in sections if section.steps]


def fence_languages(text: str) -> list[tuple[int, str]]:
    """Return the line and language of every fence of a page."""
    fences = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and not inside:
            fences.append((number, fence["language"]))
        inside = inside != bool(fence)
    return fences


def is_match(expected: str, printed: str) -> bool:
    """Return whether the output of a command matches the page."""
    pattern = "".join(_line_pattern(line) for line in expected.splitlines())
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"


def _section(number: int, place: re.Match[str]) -> Section:
    return Section(
        line=number, profile=place["profile"], needs_docker=bool(place["engine"]), in_clone=bool(place["clone"])
    )


def _blocks(text: str) -> Iterator[tuple[int, str, list[str] | None]]:
    """Yield each line outside fences, and each console fence with its content, by line number."""
    content: list[str] | None = None
    opened, indent, language = 0, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if content is not None and fence:
            if language == "console":
                yield opened, "", content
            if language == "pycon":
                yield opened, "", _as_doctest(content)
            content = None
        elif content is not None:
            content.append(line[indent:] if not line[:indent].strip() else line)
        elif fence:
            content, opened, indent, language = [], number, len(fence["indent"]), fence["language"]
        else:
            yield number, line, None
    if content is not None:
        raise BrokenPage(f"line {opened}: a fence that does not end")


def _as_doctest(session: list[str]) -> list[str]:
    """Return a console fence that runs a Python session; a doctest that passes prints nothing."""
    return ["$ python3 -m doctest -o ELLIPSIS /dev/stdin <<'END'", *(f"> {line}" for line in session), "> END"]


def _steps(first_line: int, content: list[str], exit_code: int) -> list[Step]:
    steps: list[tuple[int, list[str], list[str]]] = []
    continued = False
    for number, line in enumerate(content, first_line):
        if continued:
            steps[-1][1].append(line)
        elif line.startswith("$ "):
            steps.append((number, [line[2:]], []))
        elif steps and line[:2] in ("> ", ">") and not steps[-1][2]:
            steps[-1][1].append(line[2:])
        elif steps:
            steps[-1][2].append(line)
        elif line.strip():
            raise BrokenPage(f"line {number}: output without a command: {line}")
        continued = bool(steps) and not steps[-1][2] and line.endswith("\\")
    found = [
        Step(command="\n".join(words), line=number, expected="\n".join(output).strip("\n"))
        for number, words, output in steps
    ]
    if found and exit_code:
        last = found[-1]
        found[-1] = Step(command=last.command, line=last.line, expected=last.expected, exit_code=exit_code)
    return found
