"""A check of doctor, and its finding."""

from __future__ import annotations

from collections.abc import Callable

from amd_ctk.doctor.facts.all import Facts
from amdgpu_discovery.value import Value

OK = "ok"
BAD = "bad"
NOTE = "note"
NOT_CHECKED = "not checked"


class Finding(Value):
    """The state of one thing, a sentence about it, and the command that fixes it.

    If it was not checked, `needs` says what the check requires.
    """

    state: str
    words: str
    fix: str = ""
    needs: str = ""


class Check(Value):
    """One question about a host: its id, why it matters, and the documentation page about it.

    `engine` is "" for checks that concern all engines. `judge` returns None if the check does not apply to the host.
    """

    name: str
    question: str
    why: str
    see: str
    engine: str
    judge: Callable[[Facts], Finding | None]


def check(*, why: str, see: str, engine: str = "") -> Callable[[Callable[[Facts], Finding | None]], Check]:
    """Make a check from a function: `check_gpu_state` becomes `gpu-state`, and its docstring is the question."""

    def make(judge: Callable[[Facts], Finding | None]) -> Check:
        name = judge.__name__.removeprefix("check_").replace("_", "-")
        return Check(name=name, question=judge.__doc__ or "", why=why, see=see, engine=engine, judge=judge)

    return make


def ok(words: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(state=OK, words=words)


def bad(words: str, *, fix: str) -> Finding:
    """Return a finding about something that keeps containers from their GPUs, with its fix."""
    return Finding(state=BAD, words=words, fix=fix)


def note(words: str, *, fix: str = "") -> Finding:
    """Return a finding that is no fault but may be a surprise."""
    return Finding(state=NOTE, words=words, fix=fix)


def not_checked(words: str, *, needs: str) -> Finding:
    """Return that something could not be checked, and what the check requires."""
    return Finding(state=NOT_CHECKED, words=words, needs=needs)
