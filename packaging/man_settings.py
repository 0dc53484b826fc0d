"""The manual page of config.toml, made from the page of the documentation that describes every setting."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME = "amd-container-toolkit-config.toml"
HEAD = """.TH CONFIG.TOML 5 "{date}" "AMD Container Toolkit {version}" "AMD Container Toolkit"
.nh
.ad l
.SH NAME
{name} \\- settings of the container toolkit for AMD GPUs
.SH DESCRIPTION
"""
FOOT = ".SH SEE ALSO\n.BR amd\\-ctk (1),\n.BR amd\\-container\\-runtime (8)\n"
LONG_WORD = re.compile(r"\S{30,}")


def format_settings(markdown: str, *, date: str, version: str) -> str:
    """Return the page in roff; `markdown` has headings, paragraphs, lists, tables of two columns and code."""
    name = _roff(NAME)
    head = HEAD.format(name=name, date=date, version=_roff(version))
    lines = [line for line in markdown.split("\n")[1:] if not line.startswith("<!--")]
    return head + "".join(f"{line}\n" for line in _format(lines)) + FOOT


def _format(lines: Iterable[str]) -> Iterator[str]:
    code, is_first = False, True
    for kind, group in groupby(lines, _kind):
        if kind == "```":
            code = not code
            # Less indented than text, so that what programs print fits 80 columns.
            yield ".PP\n.in 4\n.nf" if code else ".fi\n.in"
        elif code:
            yield from map(_roff, group)
        elif kind == "#":
            yield from (f".S{'S' if line.startswith('###') else 'H'} {_heading(line)}" for line in group)
        elif kind == "|":
            yield from _rows(group)
        elif kind == "-":
            yield from (f".IP \\(bu 2\n{_words(item)}" for item in " ".join(group).removeprefix("- ").split(" - "))
        elif kind:
            # A heading begins a paragraph itself.
            yield ("" if is_first else ".PP\n") + _words(" ".join(group))
        is_first = kind == "#" or (is_first and not kind)


def _kind(line: str) -> str:
    return next((sign for sign in ("```", "#", "|", "-") if line.startswith(sign)), "text" if line.strip() else "")


def _rows(lines: Iterable[str]) -> Iterator[str]:
    # The first two are the heading and its rule.
    for line in list(lines)[2:]:
        value, meaning = (cell.strip() for cell in line.strip("|").split("|"))
        yield f".TP\n{_words(value)}\n{_words(meaning)}"


def _heading(line: str) -> str:
    text = line.lstrip("# ")
    return _roff(text if line.startswith("###") else text.upper())


def _words(text: str) -> str:
    """Return a paragraph without links and with code in bold, one sentence a line as manual pages have it."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", " ".join(text.split()))
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``?([^`]+)``?", lambda code: f"\\fB{LONG_WORD.sub(_breakable, code[1])}\\fR", _roff(text))
    return re.sub(r"(?<=[a-z)])([.:]) (?=[A-Z])", r"\1\n", text)


def _breakable(word: re.Match[str]) -> str:
    """Let a long word go on in the next line behind a colon: man warns of a line that has one word only."""
    return word[0].replace(":", ":\\:")


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
