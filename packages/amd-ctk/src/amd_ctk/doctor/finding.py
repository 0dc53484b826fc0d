"""What a check finds out."""

from __future__ import annotations

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
