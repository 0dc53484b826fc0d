"""The words in front of a command that run it as another user, or with other variables: `sudo -E`, `env X=1`."""

from __future__ import annotations

import os

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUDO = "sudo"
KEEPS = ("-E", "--preserve-env")
# Of sudo, without a value. Those that start a shell or change the directory are not read, and none of env.
FLAGS = (*KEEPS, "-H", "--set-home", "-n", "--non-interactive")
# Of sudo; their value is the next word.
WITH_VALUE = ("-u", "--user", "-g", "--group")
PROGRAMS = (SUDO, "env")


class Prefixed(Value):
    """A command without the words in front of it, and what becomes of the caller's environment there."""

    words: tuple[str, ...] = ()
    variables: dict[str, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed
    keeps_environment: bool = True
    is_sudo: bool = False


def without_prefixes(words: Sequence[str]) -> Prefixed:
    """Return a command without `sudo` and `env` in front of it; words that are not understood stay."""
    found = Prefixed(words=tuple(words))
    while found.words and os.path.basename(found.words[0]) in PROGRAMS:
        behind = _without_one(found)
        if behind is None:
            break
        found = behind
    return found


def environment_of(command: Prefixed, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command whose caller has this environment; sudo keeps none without -E."""
    return {**(environment if command.keeps_environment else {}), **command.variables}


def _without_one(found: Prefixed) -> Prefixed | None:
    is_sudo = os.path.basename(found.words[0]) == SUDO
    start = _end_of_options(found.words) if is_sudo else 1
    end = start
    while end < len(found.words) and _is_assignment(found.words[end]):
        end += 1
    if end >= len(found.words) or found.words[end].startswith("-"):
        return None
    keeps = not is_sudo or any(word in KEEPS for word in found.words[1:start])
    kept = found.variables if keeps else {}
    assigned = (word.partition("=") for word in found.words[start:end])
    return Prefixed(
        words=found.words[end:],
        variables={**kept, **{name: value for name, _, value in assigned}},
        keeps_environment=found.keeps_environment and keeps,
        is_sudo=found.is_sudo or is_sudo,
    )


def _end_of_options(words: Sequence[str]) -> int:
    position = 1
    while position < len(words) and words[position] in (*FLAGS, *WITH_VALUE):
        position += 2 if words[position] in WITH_VALUE else 1
    return position + 1 if words[position : position + 1] == ("--",) else position


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
