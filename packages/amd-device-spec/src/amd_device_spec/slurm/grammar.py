"""Parses the lines of Slurm's configuration files as slurmd does.

Source: tests with `slurmd -G` of Slurm 22.05.8; tests/slurm/forms.json has each form and the answer.
"""

from __future__ import annotations

from amd_device_spec.slurm_job import SlurmError
from amdgpu_discovery.choices.unknown_gpus import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# isspace() of C, without the line feed.
BLANKS = str.maketrans("\t\v\f\r", "    ")
# `Key+=value` is `Key=value` for every key that is read here.
OPERATORS = "-*+/"
QUOTE = "write NodeName= first, each setting as Key=value, and a value with blanks in quotes"
HINT = "write gres.conf as 'amd-ctk slurm gres' prints it"


def parse_lines(text: str, name: str = "gres.conf") -> list[dict[str, str]]:
    """Return the values of lines by lower-case key: `Name=gpu File = /x # y` is {"name": "gpu", "file": "/x"}.

    `name` is the file's, for the SlurmError about a line that slurmd refuses.
    """
    return [parsed for line in _join_lines(text) if (parsed := _parse_line(line, name))]


def _join_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments, each joined with those that continue it; every blank is a space.

    slurmd removes comments first, so a backslash in a comment continues nothing.
    """
    parts: list[str] = []
    for line in text.translate(BLANKS).split("\n"):
        part = _before_comment(line).rstrip(" ")
        if (len(part) - len(part.rstrip("\\"))) % 2:
            parts.append(part[:-1])
            continue
        yield _without_escapes("".join([*parts, part]))
        parts = []
    yield _without_escapes("".join(parts))


def _without_escapes(line: str) -> str:
    r"""Return a line with `c` for `\c`."""
    return "\\".join(part.replace("\\", "") for part in line.split("\\\\")).rstrip(" ")


def _before_comment(line: str) -> str:
    r"""Return a line up to its comment; `\#` starts none, and quotes do not protect a #."""
    end = line.find("#")
    while end > 0 and line[end - 1] == "\\":
        end = line.find("#", end + 1)
    return line if end < 0 else line[:end]


class RefusedLine(SlurmError):
    """A line that slurmd refuses; `file` is the name of the file. The message quotes the line."""

    def __init__(self, message: str, *, hint: str, file: str) -> None:
        super().__init__(message, hint=hint)
        self.file = file


def _parse_line(line: str, name: str) -> dict[str, str]:
    """Return the values of a line. The last value of a key counts, but the first key names the entry."""
    first, _, rest = line.strip(" ").partition(" ")
    if first.lower() == "include":
        raise SlurmError(f"Slurm's configuration includes {shown(rest.strip(' '))}, which is not read", hint=HINT)
    values: dict[str, str] = {}
    end = 0
    while end < len(line):
        start = end
        key, value, end = _parse_pair(line, start, name)
        if values and key == "nodename":
            raise _refused(name, line[start:])
        if not values or key != next(iter(values)):
            values[key] = value
    return values


def _parse_pair(line: str, start: int, name: str) -> tuple[str, str, int]:
    """Return a key, its value and where the next pair begins. Raises SlurmError where slurmd has a parse error."""
    equals = line.find("=", start)
    before = line[start:equals] if equals >= 0 else ""
    key = (before[:-1] if before[-1:] in OPERATORS else before).strip(" ").lower()
    value, end = _parse_value(line, equals + 1)
    if not (value or line[end - 1 : end] == '"') or not _is_key(key):
        raise _refused(name, line[start:])
    return key, value, end


def _refused(name: str, rest: str) -> SlurmError:
    return RefusedLine(f"slurmd refuses {name} at {shown(rest.strip(' '), quoted=True)}", hint=QUOTE, file=name)


def _is_key(text: str) -> bool:
    return text.isascii() and text.replace("_", "a").replace(".", "a").isalnum()


def _parse_value(line: str, start: int) -> tuple[str, int]:
    """Return a word, or what is between two quotes, and the position behind it."""
    while line[start : start + 1] == " ":
        start += 1
    close = line.find('"', start + 1) if line[start : start + 1] == '"' else -1
    if close > 0 and line[close + 1 : close + 2] in ("", " "):
        return line[start + 1 : close], close + 1
    end = line.find(" ", start)
    end = len(line) if end < 0 else end
    return line[start:end], end
