"""Reads and writes CDI specs as JSON or YAML, and finds the position of each part in the text."""

from __future__ import annotations

from amdgpu_discovery.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

JSON = "json"
YAML = "yaml"
FORMATS = (JSON, YAML)
# A spec of 64 GPUs has a few thousand parts.
MOST_PARTS = 200_000
# Limit for YAML; a spec of 64 GPUs has 30 KiB.
LARGEST_YAML = 512 * 1024
# The version that the Go library of all engines reads, in which fileMode: 0666 is octal.
ENGINES_YAML = (1, 1)
# A spec nests ten. The more brackets there are around a word, the longer YAML's reader takes for it.
DEEPEST_SPEC = 100


class BrokenText(SpecError):
    """A text that is neither JSON nor YAML; `line` and `column`, counted from 1, are where reading it failed."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class SpecText:
    """A parsed text; `tree` has its content as dicts, lists and scalars."""

    def __init__(self, text: str, tree: Any) -> None:
        self.tree = tree
        self._text = text
        self._marked: Any = None

    def position(self, location: tuple[str | int, ...]) -> tuple[int, int]:
        """Return line and column, counted from 1, of the innermost part on the way to `location` that exists."""
        if self._marked is None:
            # Slow, and needed only to locate an error.
            self._marked = _parse_yaml(self._text)
        line, column, node = 0, 0, self._marked
        for step in location:
            marks = getattr(getattr(node, "lc", None), "data", None) or {}
            if step not in marks:
                break
            line, column = marks[step][:2]
            node = node[step]
        return line + 1, column + 1


def format_spec(spec: dict[str, Any], language: str) -> bytes:
    """Return the CDI `spec` as a file in `language`, "json" or "yaml"; the same spec gives the same bytes."""
    if language == YAML:
        return _format_yaml(spec)
    import json

    return (json.dumps(spec, indent=2) + "\n").encode()


def language_of(path: str) -> str:
    """Return the language that engines expect in a file, by the ending of its name."""
    return YAML if path.endswith((".yaml", ".yml")) else JSON


def parse_spec(content: bytes, *, yaml_version: tuple[int, int] = ENGINES_YAML) -> SpecText:
    """Parse `content`, JSON or YAML, as engines do, which accept either in any file; BrokenText if it is neither.

    `tree` of the result is the spec, and `position` finds a part of it in the text. Documents that are not CDI specs
    may need another `yaml_version`: in 1.2 the key `n` is not false.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BrokenText("it is not text in UTF-8", line=line, column=1) from error
    looks_like_json = text.lstrip().startswith("{")
    # YAML rejects some tabs, JSON accepts them all. In JSON they occur only between words.
    text = text.replace("\t", " ") if looks_like_json else text
    try:
        return SpecText(text, _parse_json(text))
    except ValueError as error:
        if looks_like_json:
            return SpecText(text, _parse_where_json_breaks(text, error, yaml_version))
        return SpecText(text, _parse_yaml(text, yaml_version))
    except RecursionError as error:
        raise BrokenText("it is nested too deeply", line=1, column=1) from error


def _parse_where_json_breaks(text: str, json_error: ValueError, yaml_version: tuple[int, int]) -> Any:
    """Parse text that may still be YAML; if it is not, raise BrokenText with the message of JSON's reader."""
    from json import JSONDecodeError

    try:
        return _parse_yaml(text, yaml_version)
    except BrokenText:
        if not isinstance(json_error, JSONDecodeError):
            raise
        message = json_error.msg[:1].lower() + json_error.msg[1:]
        raise BrokenText(message, line=json_error.lineno, column=json_error.colno) from json_error


def _parse_json(text: str) -> Any:
    """Parse JSON fast; ValueError if it is invalid or repeats a key, which YAML's reader reports better."""
    import json

    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keyed = dict(pairs)
    if len(keyed) < len(pairs):
        raise ValueError("a key occurs twice")
    return keyed


def _parse_yaml(text: str, version: tuple[int, int] = ENGINES_YAML) -> Any:
    from ruamel.yaml import YAML as RuamelYaml  # noqa: N811 - a class
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _bound_size(text)
    _bound_nesting(text)
    reader = RuamelYaml(typ="rt", pure=True)
    reader.version = version
    try:
        tree = reader.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise BrokenText(" ".join((error.problem or "it cannot be read").split()), line=line, column=column) from error
    except (YAMLError, ValueError) as error:
        raise BrokenText(" ".join(str(error).split()), line=1, column=1) from error
    except TypeError as error:
        # ruamel.yaml accepts a list or an object as a key, but then cannot look inside the value it made of it.
        raise BrokenText("a list or an object stands where a key belongs", line=1, column=1) from error
    except AttributeError as error:
        # ruamel.yaml cannot merge an object that it is still reading.
        raise BrokenText("an object merges itself", line=1, column=1) from error
    except RecursionError as error:
        raise BrokenText("it is nested too deeply", line=1, column=1) from error
    if "*" in text:
        _bound_aliases(tree)
    return tree


def _bound_size(text: str) -> None:
    """Refuse text that takes too long: the reader manages 50 KB a second, and copies merged content key by key."""
    if len(text) > LARGEST_YAML:
        raise BrokenText(f"YAML of more than {LARGEST_YAML // 1024} KiB is not read", line=1, column=1)
    # A merge is written "<<", or has the tag. Each alias in it costs at most as much as all keys.
    if ("<<" in text or "merge" in text) and text.count("*") * text.count(":") > MOST_PARTS:
        raise BrokenText("its merge keys expand to too much", line=1, column=1)


def _bound_nesting(text: str) -> None:
    """Refuse text that opens far more brackets than it closes. Those in strings count, not the `${` of variables."""
    import re

    depth = 0
    for bracket in re.finditer(r"(?<!\$)[{]|[][}]", text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > DEEPEST_SPEC:
            raise BrokenText("it is nested too deeply", line=text.count("\n", 0, bracket.start()) + 1, column=1)


def _bound_aliases(tree: Any) -> None:
    """Refuse a tree that is far larger than its text: an alias may stand for other aliases, or contain itself."""
    waiting, parts = [tree], 0
    while waiting:
        part = waiting.pop()
        if not isinstance(part, (dict, list)):
            continue
        inner = part.values() if isinstance(part, dict) else part
        parts += len(inner)
        if parts > MOST_PARTS:
            raise BrokenText("its aliases expand to too much", line=1, column=1)
        waiting += inner


def _format_yaml(spec: dict[str, Any]) -> bytes:
    from io import BytesIO

    from ruamel.yaml import YAML as RuamelYaml  # noqa: N811 - a class

    writer = RuamelYaml(typ="rt", pure=True)
    writer.width = 4096
    text = BytesIO()
    writer.dump(_quote_values(spec), text)
    return text.getvalue()


def _quote_values(tree: Any) -> Any:
    """Quote every string: some readers take a bare 0x1F or 0000:03:00.0 for a number."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(tree, dict):
        return {key: _quote_values(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_quote_values(item) for item in tree]
    return DoubleQuotedScalarString(tree) if isinstance(tree, str) else tree
