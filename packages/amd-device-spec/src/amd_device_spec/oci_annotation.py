"""Removes from a spec what its annotation lists as added by this toolkit.

Any user or image can write an annotation, so its list is checked before anything is removed.
"""

from __future__ import annotations

from amd_device_spec.oci import (
    ANNOTATION,
    LOCATIONS,
    PRIVATE_NODES,
    VRAM_VARIABLES,
    add_edits,
    is_edited,
    mount_of,
    rule_of,
    summary_of,
)
from amdgpu_discovery.errors import SpecError
from amdgpu_discovery.untrusted.plain_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amd_device_spec.oci import Edits

# The program of the GPU Tracker's hooks; this distribution does not import the tracker.
HOOK_PROGRAM = "amd_gpu_tracker/hook.py"
# Most digits of a device number; the kernel's numbers have 12 and 20 bits.
LONGEST_DEVICE_NUMBER = 10
# A list for 64 partitions, the most that a host has, is a quarter of this.
LONGEST_DEVICE_LIST = 2**16


def apply_edits(spec: dict[str, Any], edits: Edits) -> bool:
    """Replace earlier edits in an OCI `spec` by new ones; return whether it changed.

    Raises the errors of `add_edits`.
    """
    removed = remove_edits(spec)
    return add_edits(spec, edits) or removed


def remove_edits(spec: dict[str, Any]) -> bool:
    """Remove from an OCI `spec` what an earlier `add_edits` added; return whether it had edits. Raises SpecError."""
    if not is_edited(spec):
        return False
    _remove_listed(spec, spec["annotations"].pop(ANNOTATION))
    return True


def _remove_listed(spec: dict[str, Any], listed: object) -> None:
    """Remove what the annotation's value lists; SpecError if this toolkit did not write that value."""
    for section, entries in _parse_listed(listed).items():
        left: dict[object, int] = {}
        for entry in entries:
            text = _hook_text(entry) if section == "poststop" else entry
            left[text] = left.get(text, 0) + 1
        present = _find_list(spec, LOCATIONS[section])
        # Edits were appended, so the first of two equal entries belongs to another program.
        present[:] = [entry for entry in reversed(present) if not _take(left, _as_listed(section, entry))][::-1]


def _take(left: dict[object, int], listed: object) -> bool:
    if not left.get(listed):
        return False
    left[listed] -= 1
    return True


def _as_listed(section: str, present: Any) -> object:
    """Return an entry of a spec as the annotation lists it, None if this toolkit never writes such entries."""
    if section in ("gids", "env"):
        return present if isinstance(present, (int, str)) else None
    if not isinstance(present, dict):
        return None
    if section == "devices":
        return summary_of(present)
    if section == "poststop":
        return _hook_text(present)
    if section == "mounts":
        destination, source = present.get("destination", ""), present.get("source", "")
        return f"{destination} {source}" if present == mount_of(destination, source) else None
    major, minor = present.get("major", -1), present.get("minor", -1)
    return f"{major}:{minor}" if present == rule_of(major, minor) else None


def _hook_text(hook: dict[str, Any]) -> str:
    return f"{hook.get('path')} {hook.get('args')} {hook.get('timeout')}"


def _parse_listed(listed: object) -> dict[str, list[Any]]:
    try:
        sections = loads(listed.encode()) if isinstance(listed, str) and len(listed) <= LONGEST_DEVICE_LIST else None
    except (ValueError, RecursionError):
        sections = None
    if not isinstance(sections, dict) or not all(
        _is_edit_list(section, entries) for section, entries in sections.items()
    ):
        raise SpecError(f"its annotation {ANNOTATION} is not what this toolkit writes")
    return sections


def _is_edit_list(section: str, entries: object) -> bool:
    """Return whether these can be edits of this toolkit.

    An image must not use the list to remove a rule that denies, or a hook of another program.
    """
    return section in LOCATIONS and isinstance(entries, list) and all(_is_listed(section, entry) for entry in entries)


def _is_listed(section: str, entry: object) -> bool:
    if section == "gids":
        return type(entry) is int
    if section == "poststop":
        return _is_hook(entry)
    if not isinstance(entry, str):
        return False
    if section == "mounts":
        return _is_node_mount(entry)
    if section == "rules":
        return _are_numbers(entry)
    return section == "devices" or entry.partition("=")[0] in VRAM_VARIABLES


def _is_node_mount(listed: str) -> bool:
    """Return whether a mount binds one of the runtime's private nodes below /dev."""
    destination, _, source = listed.partition(" ")
    directory, _, numbers = source.rpartition("/")
    return destination.startswith("/dev/") and directory.endswith(PRIVATE_NODES) and _are_numbers(numbers)


def _are_numbers(text: str) -> bool:
    major, _, minor = text.partition(":")
    return all(
        number.isascii() and number.isdecimal() and len(number) <= LONGEST_DEVICE_NUMBER for number in (major, minor)
    )


def _is_hook(hook: object) -> bool:
    words = hook.get("args") if isinstance(hook, dict) else None
    return isinstance(words, list) and any(isinstance(word, str) and word.endswith(HOOK_PROGRAM) for word in words)


def _find_list(spec: dict[str, Any], spec_path: tuple[str, ...]) -> list[Any]:
    found: Any = spec
    for key in spec_path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []
