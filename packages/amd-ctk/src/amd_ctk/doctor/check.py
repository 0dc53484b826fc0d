"""A check of doctor, and what it finds out."""

from __future__ import annotations

from collections.abc import Callable

from amd_ctk.doctor.facts.all import Facts
from amdgpu_discovery.value import Value

OK = "ok"
BAD = "bad"
NOTE = "note"
NOT_CHECKED = "not checked"


class Finding(Value):
    """The state of one thing, a sentence about it, and the command that puts it right.

    `needs` is what it would take to check, where it was not checked.
    """

    state: str
    words: str
    fix: str = ""
    needs: str = ""


class Check(Value):
    """What is asked of a host: its id, the question, why it matters, and the page that says more.

    `engine` is the one it is about, "" for all. `judge` returns None where there is nothing to say about such a host.
    """

    name: str
    question: str
    why: str
    see: str
    engine: str
    judge: Callable[[Facts], Finding | None]


def check(*, why: str, see: str, engine: str = "") -> Callable[[Callable[[Facts], Finding | None]], Check]:
    """Make a check of a function: `check_gpu_state` is the check `gpu-state`, and its docstring is the question."""

    def make(judge: Callable[[Facts], Finding | None]) -> Check:
        name = judge.__name__.removeprefix("check_").replace("_", "-")
        return Check(name=name, question=judge.__doc__ or "", why=why, see=see, engine=engine, judge=judge)

    return make


def ok(words: str) -> Finding:
    """Return that all is well."""
    return Finding(state=OK, words=words)


def bad(words: str, *, fix: str) -> Finding:
    """Return what keeps containers from their GPUs, and what to do."""
    return Finding(state=BAD, words=words, fix=fix)


def note(words: str, *, fix: str = "") -> Finding:
    """Return what is no fault and may be a surprise."""
    return Finding(state=NOTE, words=words, fix=fix)


def not_checked(words: str, *, needs: str) -> Finding:
    """Return that something could not be looked at, and what that would take."""
    return Finding(state=NOT_CHECKED, words=words, needs=needs)
