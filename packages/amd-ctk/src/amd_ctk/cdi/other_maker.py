"""CDI specs whose hooks belong to another installation of the toolkit, such as a copy from pip beside the packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from amd_gpu_tracker.claims.hook_entries import PROGRAM

IMPORT_FROM = "--import-from"
COMMAND = "amd-ctk"


def accept_hooks(hooks: Sequence[dict[str, Any]], spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the hooks that a spec should have, each as the spec has it if it is that of another installation."""
    present = spec.get("containerEdits", {}).get("hooks", ())
    return [next((each for each in present if _does_the_same(each, hook)), hook) for hook in hooks]


def find_other_maker(hooks: Sequence[dict[str, Any]], spec: dict[str, Any]) -> str:
    """Return the amd-ctk of the other installation whose hooks a spec has, "" if it has those of this one."""
    for hook, accepted in zip(hooks, accept_hooks(hooks, spec), strict=True):
        if _resolved(hook["args"]) != _resolved(accepted["args"]):
            words = accepted["args"]
            position = _program_of(words)
            interpreters = [word for word in words[:position] if os.path.basename(word).startswith("python")]
            commands = [f"{os.path.dirname(word)}/{COMMAND}" for word in interpreters]
            return next((path for path in commands if os.path.exists(path)), words[position])
    return ""


def _does_the_same(hook: Any, wanted: dict[str, Any]) -> bool:
    """Return whether a hook of a spec is the wanted one, of this installation or of another that is there."""
    words = hook.get("args") if isinstance(hook, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return False
    position, expected = _program_of(words), _program_of(wanted["args"])
    if position < 0 or hook.get("hookName") != wanted["hookName"] or not _is_there(words, position):
        return False
    return _behind(words, position) == _behind(wanted["args"], expected)


def _is_there(words: Sequence[str], position: int) -> bool:
    """Return whether the hook's program, its interpreter and what it imports from exist, so that it can run."""
    behind = words[position + 1 :]
    imported = behind[behind.index(IMPORT_FROM) + 1].split(":") if IMPORT_FROM in behind[:-1] else []
    paths = [word for word in words[: position + 1] if word.startswith("/")]
    return all(map(os.path.exists, (*paths, *imported)))


def _program_of(words: Sequence[str]) -> int:
    """Return the position of the hook's program, -1 if there is none."""
    return next((position for position, word in enumerate(words) if word.endswith(f"/{PROGRAM}")), -1)


def _behind(words: Sequence[str], position: int) -> list[str]:
    """Return the words behind the program, without the directories that it imports from."""
    left = list(words[position + 1 :])
    if IMPORT_FROM in left:
        del left[left.index(IMPORT_FROM) : left.index(IMPORT_FROM) + 2]
    return left


def _resolved(words: Sequence[str]) -> list[str]:
    """Return words with real paths: `python` and `python3` of an environment are one interpreter."""
    return [os.path.realpath(word) if word.startswith("/") else word for word in words]
