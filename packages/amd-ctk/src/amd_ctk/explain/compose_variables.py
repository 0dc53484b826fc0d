"""Variables as Compose reads them: `$NAME` in its files, and files of variables with quotes, `export` and comments.

The rules are those of the library in Compose 2 (compose-go's `template` and `dotenv`); a test holds them against what
Compose made of some hundred files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from amd_ctk.explain.container import ExplainError
from amd_gpu_tracker.records.plain_text import one_line
from amdgpu_discovery.errors import reason
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.unknown_gpus import shown

# $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?words}; $$ is a dollar. Words may have variables of their
# own, so that the innermost is replaced first.
VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?)([-?+])([^${}]*))?\})", re.ASCII)
# What stands for a value while the words around it are read; no YAML has a zero byte.
KEPT = re.compile(r"\0(\d+)\0")
DEEPEST = 20
# Of variables.
LARGEST_FILE = 1024 * 1024
EXPORT = re.compile(r"export(?=\s)")
BLANKS = "\t\v\f\r \x85\xa0"
NAME_SIGNS = "_.-[]"
ESCAPE = re.compile(r'\\(?:([abfnrtv$"\\])|0([0-7]{3}))')
ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "$": "$$", '"': '"', "\\": "\\"}


def expand_text(text: str, find: Callable[[str], str | None]) -> str:
    """Replace variables from the inside out: what one stands for is not looked at again; ExplainError."""
    values: list[str] = []

    def keep(match: re.Match[str]) -> str:
        values.append(_restored(_value_of(match, find), values))
        return f"\0{len(values) - 1}\0"

    for _ in range(DEEPEST):
        text, replaced = VARIABLE.subn(keep, text)
        if not replaced:
            break
    if "${" in text:
        raise ExplainError(f"{shown(text)} is an invalid template", hint="write a dollar as $$")
    return _restored(text, values)


def read_variables(path: str, find: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables of a file; `find` gives what `$NAME` and names without a value stand for; ExplainError."""
    try:
        text = read_plain_file(path, largest=LARGEST_FILE)[0].decode()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise ExplainError(f"the file {path} of variables cannot be read: {why}") from error
    try:
        return parse_variables(text, find)
    except ExplainError as error:
        raise ExplainError(f"the file {path} of variables cannot be read: {error.message}") from error


def parse_variables(text: str, find: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables of a text; ExplainError where Compose refuses it."""
    rest = _at_statement(text.removeprefix("\ufeff"))
    found: dict[str, str] = {}

    def look_up(name: str) -> str | None:
        given = find(name)
        return found.get(name) if given is None else given

    while rest:
        name, has_value, rest = _take_name(rest)
        value = find(name)
        if has_value:
            value, rest = _take_value(rest, look_up)
        if value is not None:
            found[name] = value
        rest = _at_statement(rest)
    return found


def _restored(text: str, values: Sequence[str]) -> str:
    by_number = dict(enumerate(values))
    # A file may have zero bytes of its own.
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


def _at_statement(text: str) -> str:
    """Return a text from the next name on, without comments."""
    text = text.lstrip()
    while text.startswith("#"):
        text = text.partition("\n")[2].lstrip()
    return text


def _take_name(text: str) -> tuple[str, bool, str]:
    """Return a name, whether a value follows, and the rest; a name alone in its line takes the caller's value."""
    start = EXPORT.match(text)
    text = text[start.end() :].lstrip(BLANKS) if start else text
    for place, letter in enumerate(text):
        if letter in "=:\n":
            name = text[:place].rstrip()
            if " " in name:
                raise ExplainError(f"the name {shown(name)} has a blank")
            return name, letter != "\n", text[place + 1 :].lstrip(BLANKS)
        if letter not in BLANKS and letter not in NAME_SIGNS and not letter.isalnum():
            raise ExplainError(f"{shown(letter)} stands in the name {shown(text.partition(chr(10))[0])}")
    # Of a name alone at the end of a file without a line's end Compose makes the value of no name.
    return "", True, text


def _take_value(text: str, find: Callable[[str], str | None]) -> tuple[str, str]:
    if not text.startswith(("'", '"')):
        value, _, rest = text.partition("\n")
        return expand_text(value.partition(" #")[0].rstrip(), find), rest
    quote = text[0]
    end = re.compile(rf"(?:[^{quote}\\]|\\.)*", re.DOTALL).match(text, 1)
    place = end.end() if end else 1
    if text[place : place + 1] != quote:
        raise ExplainError(f"the quoted value {shown(text.partition(chr(10))[0])} has no end")
    value = text[1:place].replace(f"\\{quote}", quote)
    if quote == '"':
        value = expand_text(ESCAPE.sub(_unescaped, value), find)
    return value, text[place + 1 :]


def _unescaped(match: re.Match[str]) -> str:
    return ESCAPED[match[1]] if match[1] else chr(int(match[2], 8) % 256)


def finder(*mappings: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function that finds a variable in the first of these that has it."""
    return lambda name: next((mapping[name] for mapping in mappings if name in mapping), None)
