"""Take out of a spec what an earlier `create` put in, as its annotation lists it."""

from __future__ import annotations

from amd_device_spec.errors import SpecError
from amd_device_spec.oci import ANNOTATION, PLACES, VRAM_LIMIT, rule_of, summary_of
from amdgpu_discovery.plain_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What the hooks of the GPU Tracker run, which is a distribution that this one does not know.
HOOK_PROGRAM = "amd_gpu_tracker/hook.py"
# Of a device; the kernel's have 12 and 20 bits.
LONGEST_NUMBER = 10


def remove_listed(spec: dict[str, Any], listed: object) -> None:
    """Take out what the annotation's value lists; SpecError where that is nothing of ours."""
    for kind, entries in _parse_listed(listed).items():
        present = _find_list(spec, PLACES[kind])
        for entry in entries:
            # Ours was appended: of two equal entries the first is somebody else's.
            place = next((place for place in reversed(range(len(present))) if _is(kind, present[place], entry)), None)
            if place is not None:
                del present[place]


def _is(kind: str, present: object, listed: Any) -> bool:
    """Return whether an entry of a spec is the listed one."""
    if kind == "devices":
        return isinstance(present, dict) and summary_of(present) == listed
    if kind == "rules":
        return present == rule_of(*map(int, listed.split(":")))
    return bool(present == listed)


def _parse_listed(listed: object) -> dict[str, list[Any]]:
    try:
        kinds = loads(str(listed).encode())
    except (ValueError, RecursionError):
        kinds = None
    if not isinstance(kinds, dict) or not all(_is_ours(kind, entries) for kind, entries in kinds.items()):
        raise SpecError(f"its annotation {ANNOTATION} is not what this toolkit writes")
    return kinds


def _is_ours(kind: str, entries: object) -> bool:
    """Return whether these can be edits of ours.

    Anybody can write an annotation, an image too: what it lists must not take away a denial or somebody's hook.
    """
    if kind not in PLACES or not isinstance(entries, list):
        return False
    if kind == "devices":
        return all(isinstance(device, str) for device in entries)
    if kind == "rules":
        return all(isinstance(numbers, str) and _are_numbers(numbers) for numbers in entries)
    if kind == "env":
        return all(isinstance(variable, str) and variable.startswith(f"{VRAM_LIMIT}=") for variable in entries)
    return kind != "poststop" or all(_is_hook(hook) for hook in entries)


def _are_numbers(text: str) -> bool:
    major, _, minor = text.partition(":")
    return all(number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER for number in (major, minor))


def _is_hook(hook: object) -> bool:
    words = hook.get("args") if isinstance(hook, dict) else None
    return isinstance(words, list) and any(isinstance(word, str) and word.endswith(HOOK_PROGRAM) for word in words)


def _find_list(spec: dict[str, Any], place: tuple[str, ...]) -> list[Any]:
    found: Any = spec
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []
