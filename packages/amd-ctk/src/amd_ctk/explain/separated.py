"""Values apart by commas, as Go's encoding/csv reads a line of them: a part in quotes may have commas of its own."""

from __future__ import annotations

import re

from amd_ctk.explain.container import ExplainError

QUOTED = re.compile(r'"((?:[^"]|"")*)"(,|$)')
PLAIN = re.compile(r'([^,"]*)(,|$)')


def split_values(text: str, option: str) -> list[str]:
    """Return the parts of the value of an option; ExplainError for quotes that the engine refuses."""
    parts: list[str] = []
    position, more = 0, bool(text)
    while more:
        found = (QUOTED if text.startswith('"', position) else PLAIN).match(text, position)
        if not found:
            problem = f'invalid argument {text!r} for "--{option}" flag: a quote in the wrong place'
            raise ExplainError(problem, hint="put quotes around a whole part, as in '\"device=0,1\"'")
        parts.append(found[1].replace('""', '"') if text.startswith('"', position) else found[1])
        position, more = found.end(), found[2] == ","
    return parts
