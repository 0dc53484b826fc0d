"""What the checks found out, as people read it and as programs do."""

from __future__ import annotations

import json
from collections.abc import Sequence

from amd_ctk.doctor.check import BAD, NOT_CHECKED, NOTE, OK
from amd_ctk.doctor.run import Result
from amd_ctk.pages import find_page
from amdgpu_discovery.plain_text import printable

STATES = (OK, BAD, NOTE, NOT_CHECKED)
# What `--json` prints is of this version; see schema/doctor.json.
VERSION = 1


def format_results(results: Sequence[Result], *, verbose: bool = False) -> str:
    """Return a line for each check, its fix below it, and the sums."""
    names = max((len(result.check) for result in results), default=0)
    lines = [line for result in results for line in _lines(result, names, verbose=verbose)]
    return "\n".join([*lines, _sums(results)])


def format_json(results: Sequence[Result]) -> str:
    """Return {"version", "healthy", "checks"}, as schema/doctor.json describes it."""
    checks = [
        {"id": result.check, **result.finding.as_dict(), "why": result.why, "see": result.see} for result in results
    ]
    return json.dumps({"version": VERSION, "healthy": is_healthy(results), "checks": checks}, indent=2)


def is_healthy(results: Sequence[Result]) -> bool:
    """Return whether nothing is bad."""
    return all(result.finding.state != BAD for result in results)


def _lines(result: Result, width: int, *, verbose: bool) -> list[str]:
    finding = result.finding
    indent = " " * (width + 2 + len(NOT_CHECKED) + 2)
    lines = [f"{result.check:<{width}}  {finding.state:<{len(NOT_CHECKED)}}  {printable(finding.words)}"]
    if finding.needs:
        lines.append(f"{indent}needs: {printable(finding.needs)}")
    if finding.fix:
        word = "fix" if finding.state == BAD else "option"
        lines.append(f"{indent}{word}: {printable(finding.fix)}")
    if verbose:
        lines += [f"{indent}why: {result.why}", f"{indent}see: {find_page(result.see)}"]
    return lines


def _sums(results: Sequence[Result]) -> str:
    counts = {state: sum(result.finding.state == state for result in results) for state in STATES}
    total = len(results)
    words = [
        f"{counts[OK]} ok",
        f"{counts[BAD]} bad",
        _many(counts[NOTE], "note"),
        f"{counts[NOT_CHECKED]} not checked",
    ]
    return f"{_many(total, 'check')}: {', '.join(words)}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
