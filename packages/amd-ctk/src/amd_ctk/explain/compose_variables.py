"""Variables as Compose reads them: `$NAME` in its files, and files of variables with quotes, `export` and comments.

The rules are those of the library in Compose 2 (compose-go's `template` and `dotenv`). A test compares them with what
Compose made of some hundred files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from amd_ctk.explain.container import ExplainError
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import reason
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_text import one_line

# $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?words}; $$ is a dollar. Words may contain variables, so the
# innermost variable is replaced first.
VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?)([-?+])([^${}]*))?\})", re.ASCII)
# Stands for a value while the words around it are read; YAML contains no zero bytes.
KEPT = re.compile(r"\0(\d+)\0")
DEEPEST_DEFAULT = 20
# The limit of a file of variables.
LARGEST_ENV_FILE = 1024 * 1024
EXPORT = re.compile(r"export(?=\s)")
BLANKS = "\t\v\f\r \x85\xa0"
BLANK = re.compile(f"[{BLANKS}]*")
# Blanks, ends of lines and comments.
BETWEEN = re.compile(r"(?:\s|#[^\n]*)*")
QUOTED = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*", re.DOTALL) for quote in ("'", '"')}
NAME_SIGNS = "_.-[]"
ESCAPE = re.compile(r'\\(?:([abfnrtv$"\\])|0([0-7]{3}))')
ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "$": "$$", '"': '"', "\\": "\\"}


def expand_text(text: str, find: Callable[[str], str | None]) -> str:
    """Replace variables from the inside out; values are not expanded again. ExplainError."""
    values: list[str] = []

    def keep(match: re.Match[str]) -> str:
        values.append(_restored(_value_of(match, find), values))
        return f"\0{len(values) - 1}\0"

    for _ in range(DEEPEST_DEFAULT):
        text, replaced = VARIABLE.subn(keep, text)
        if not replaced:
            break
    if "${" in text:
        raise ExplainError(f"{shown(text)} is an invalid template", hint="write a dollar as $$")
    return _restored(text, values)


def read_variables(path: str, find: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables of a file; `find` gives the values of `$NAME` and of names without a value; ExplainError."""
    try:
        return parse_variables(read_plain_file(path, largest=LARGEST_ENV_FILE)[0].decode(), find)
    except (OSError, UnicodeDecodeError, ExplainError) as error:
        raise ExplainError(f"the environment file {path} cannot be read: {reason(error)}") from error


def parse_variables(text: str, find: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables of a text; ExplainError if Compose refuses it."""
    text = text.removeprefix("\ufeff")
    place = _skip(BETWEEN, text, 0)
    found: dict[str, str] = {}

    def look_up(name: str) -> str | None:
        given = find(name)
        return found.get(name) if given is None else given

    while place < len(text):
        name, has_value, place = _take_name(text, place)
        value = find(name)
        if has_value:
            value, place = _take_value(text, place, look_up)
        if value is not None:
            found[name] = value
        place = _skip(BETWEEN, text, place)
    return found


def _restored(text: str, values: Sequence[str]) -> str:
    by_number = dict(enumerate(values))
    # A file may contain zero bytes itself.
    return KEPT.sub(lambda match: by_number.get(int(match[1]), match[0]), text)


def _value_of(match: re.Match[str], find: Callable[[str], str | None]) -> str:
    dollar, plain, braced, colon, sign, words = match.groups()
    if dollar:
        return "$"
    name = plain or braced
    given = find(name)
    value = given or ""
    if sign == "?" and not value and (colon or given is None):
        raise ExplainError(f"required variable {name} is missing a value: {one_line(words)}")
    is_given = bool(value) if colon else given is not None
    if sign == "+":
        return words if is_given else ""
    return words if sign == "-" and not is_given else value


def _skip(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    # Past the end of the text, a pattern matches at the end.
    return max(place, match.end()) if match else place


def _take_name(text: str, place: int) -> tuple[str, bool, int]:
    """Return a name, whether a value follows, and where. A name alone in its line takes the caller's value."""
    start = _skip(BLANK, text, _skip(EXPORT, text, place)) if EXPORT.match(text, place) else place
    for end in range(start, len(text)):
        letter = text[end]
        if letter in "=:\n":
            name = text[start:end].rstrip()
            if " " in name:
                raise ExplainError(f"the name {shown(name)} has a blank")
            return name, letter != "\n", _skip(BLANK, text, end + 1)
        if letter not in BLANKS and letter not in NAME_SIGNS and not letter.isalnum():
            line = text[start:].partition("\n")[0]
            raise ExplainError(f"{shown(letter)} stands in the name {shown(line)}")
    # For a name alone at the end of a file without a final newline, Compose reads a value with an empty name.
    return "", True, start


def _take_value(text: str, place: int, find: Callable[[str], str | None]) -> tuple[str, int]:
    quote = text[place : place + 1]
    if quote not in QUOTED:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        return expand_text(text[place:end].partition(" #")[0].rstrip(), find), end + 1
    end = _skip(QUOTED[quote], text, place + 1)
    if text[end : end + 1] != quote:
        raise ExplainError(f"the quoted value {shown(text[place:].partition(chr(10))[0])} has no end")
    value = text[place + 1 : end].replace(f"\\{quote}", quote)
    if quote == '"':
        value = ESCAPE.sub(lambda match: ESCAPED[match[1]] if match[1] else chr(int(match[2], 8) % 256), value)
        value = expand_text(value, find)
    return value, end + 1


def finder(*mappings: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function that finds a variable in the first of these mappings that has it."""
    return lambda name: next((mapping[name] for mapping in mappings if name in mapping), None)
