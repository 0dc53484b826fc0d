"""Make the manual page of config.toml from the documentation page that describes every setting."""

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
    """Return the page in roff; `markdown` has headings, paragraphs, lists, tables and code."""
    name = _roff(NAME)
    head = HEAD.format(name=name, date=date, version=_roff(version))
    lines = [line for line in markdown.split("\n")[1:] if not line.startswith("<!--")]
    return head + "".join(f"{line}\n" for line in _format(lines)) + FOOT


def _format(lines: Iterable[str]) -> Iterator[str]:
    code, is_first = False, True
    for kind, group in groupby(lines, _kind):
        if kind == "```":
            code = not code
            # Indented less than text, so that output of programs fits 80 columns.
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
            # A heading starts a paragraph itself.
            yield ("" if is_first else ".PP\n") + _words(" ".join(group))
        is_first = kind == "#" or (is_first and not kind)


def _kind(line: str) -> str:
    return next((sign for sign in ("```", "#", "|", "-") if line.startswith(sign)), "text" if line.strip() else "")


def _rows(lines: Iterable[str]) -> Iterator[str]:
    # The first two lines are the header and its rule.
    for line in list(lines)[2:]:
        value, *meanings = (cell.strip() for cell in line.strip("|").split("|"))
        yield f".TP\n{_words(value)}\n" + "\n.br\n".join(map(_words, meanings))


def _heading(line: str) -> str:
    text = line.lstrip("# ")
    return _roff(text if line.startswith("###") else text.upper())


def _words(text: str) -> str:
    """Format a paragraph without links, with code in bold, and with one sentence per line as usual in manual pages."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", " ".join(text.split()))
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``?([^`]+)``?", lambda code: f"\\fB{LONG_WORD.sub(_breakable, code[1])}\\fR", _roff(text))
    return re.sub(r"(?<=[a-z)])([.:]) (?=[A-Z])", r"\1\n", text)


def _breakable(word: re.Match[str]) -> str:
    """Allow a line break after a colon in a long word: man warns about a line with only one word."""
    return word[0].replace(":", ":\\:")


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
