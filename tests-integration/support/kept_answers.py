"""Keep the answers of engines to random options, beside the tests that compare explain with them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from support.about_gpus import DRAWN, about_gpus
from support.recorder import KFD

KEPT = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/words"
DIRECTORY = Path(os.environ.get("AMD_LINES_ANSWERS", KEPT))
# These differ between runs.
VARYING = (
    (DRAWN, "ID"),
    (re.compile(r"time=\S+ "), ""),
    (re.compile(r"(/tmp/)?(docker-)?(import|runc-process|crun)[-.]?\d+"), "TEMPORARY"),
)
MOST_CHARACTERS = 240
# Beginnings of the line with the reason, the most certain ones first.
REASONS = (
    re.compile(
        r"(docker: |panic: |invalid argument|unknown |flag needs|bad flag|Error: |ERROR: |validating |services\.)"
    ),
    re.compile(r"(.*level=(error|fatal)|Failed|Error|error|Cannot|failed|yaml: |invalid)"),
)


class Answer(NamedTuple):
    """The request, the part of config.json about GPUs (None: the engine refused), and the reason of a refusal."""

    asked: list[Any]
    spec: dict[str, Any] | None
    reason: str


def answer_of(asked: object, spec: dict[str, Any] | None, printed: str) -> Answer:
    """Return the answer of an engine in the form in which it is kept."""
    as_kept = json.loads(json.dumps(asked))
    if spec is not None:
        return Answer(as_kept, about_gpus(spec, kfd=KFD), "")
    return Answer(as_kept, None, reason_in(printed))


def reason_in(printed: str) -> str:
    """Return the line with the reason in an engine's output."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    found = (line for begin in REASONS for line in lines if begin.match(line))
    reason = next(found, (lines or [""])[-1])
    for pattern, name in VARYING:
        reason = pattern.sub(name, reason)
    return reason[:MOST_CHARACTERS]


def write_version(name: str, version: str) -> None:
    """Write which version of an engine answered."""
    file = DIRECTORY / "versions.json"
    known = json.loads(file.read_bytes()) if file.exists() else {}
    file.write_text(json.dumps({**known, name: version}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_versions() -> dict[str, str]:
    """Return the version of each engine that answered."""
    versions: dict[str, str] = json.loads((DIRECTORY / "versions.json").read_bytes())
    return versions


def write_answers(name: str, answers: list[Answer]) -> None:
    """Write the answers of an engine."""
    DIRECTORY.mkdir(exist_ok=True)
    lines = (json.dumps(answer, separators=(",", ":")) for answer in answers)
    (DIRECTORY / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def read_answers(name: str) -> list[Answer]:
    """Return the kept answers of an engine."""
    return [Answer(*entry) for entry in json.loads((DIRECTORY / f"{name}.json").read_bytes())]
