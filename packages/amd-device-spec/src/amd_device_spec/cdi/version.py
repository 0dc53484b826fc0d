"""Which version of the CDI specification a spec needs, and which engines read it.

Source: the specification's table of versions. The versions of engines were tested; see docs/reference/engines.md.
"""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
EARLIEST = "0.3.0"

# The latest version that each engine reads.
LATEST_BY_ENGINE = {
    "Podman 4.3": "0.5.0",
    "Docker 26": "0.7.0",
    "Podman 5.4": "0.8.0",
    "Podman 5.8": "1.0.0",
    "Docker 28": "1.0.0",
    "Podman 6.1": "1.0.0",
    "containerd 2.1": "1.0.0",
}


class Need(Value):
    """A version, the content of a spec that needs it, and the location of that content."""

    version: str
    content: str
    location: tuple[str | int, ...]


def needed_version(spec: dict[str, Any]) -> Need:
    """Return the lowest version that can carry all of a spec; the schema must have accepted the spec."""
    lowest = Need(version=EARLIEST, content="any spec", location=())
    return max([lowest, *_needs(spec)], key=lambda need: VERSIONS.index(need.version))


def engines_without(version: str) -> list[str]:
    """Return the engines that refuse a spec of this version."""
    wanted = VERSIONS.index(version)
    return [engine for engine, latest in LATEST_BY_ENGINE.items() if VERSIONS.index(latest) < wanted]


def latest_version(engine: str, number: Sequence[int]) -> str:
    """Return the latest version that an engine of this number reads; "" if the engine is later than all tested ones.

    An engine between two tested ones counts as the later of them.
    """
    for name, latest in LATEST_BY_ENGINE.items():
        tried = tuple(map(int, name.removeprefix(engine).split("."))) if name.startswith(f"{engine} ") else ()
        if tried and tuple(number[: len(tried)]) <= tried:
            return latest
    return ""


def unread_versions(engine: str, number: Sequence[int]) -> tuple[str, ...]:
    """Return the versions that an engine of this number leaves out; () if that is not known, or the number is ()."""
    latest = latest_version(engine, number) if number else ""
    return VERSIONS[VERSIONS.index(latest) + 1 :] if latest else ()


def _needs(spec: dict[str, Any]) -> Iterator[Need]:
    if "." in spec["kind"].partition("/")[2]:
        yield Need(version="0.6.0", content="a class with a dot", location=("kind",))
    if spec.get("annotations"):
        yield Need(version="0.6.0", content="annotations", location=("annotations",))
    yield from _needs_of_edits(spec.get("containerEdits", {}), ("containerEdits",))
    for position, device in enumerate(spec["devices"]):
        yield from _needs_of_device(device, ("devices", position))


def _needs_of_device(device: dict[str, Any], location: tuple[str | int, ...]) -> Iterator[Need]:
    if device["name"][:1].isdecimal():
        yield Need(version="0.5.0", content="a name that begins with a digit", location=(*location, "name"))
    if device.get("annotations"):
        yield Need(version="0.6.0", content="annotations", location=(*location, "annotations"))
    yield from _needs_of_edits(device["containerEdits"], (*location, "containerEdits"))


def _needs_of_edits(edits: dict[str, Any], location: tuple[str | int, ...]) -> Iterator[Need]:
    for position, mount in enumerate(edits.get("mounts", ())):
        if mount.get("type"):
            yield Need(version="0.4.0", content="the type of a mount", location=(*location, "mounts", position, "type"))
    for position, node in enumerate(edits.get("deviceNodes", ())):
        if node.get("hostPath"):
            where = (*location, "deviceNodes", position, "hostPath")
            yield Need(version="0.5.0", content="the hostPath of a device node", location=where)
    for field, version in (("additionalGids", "0.7.0"), ("intelRdt", "0.7.0"), ("netDevices", "1.1.0")):
        if edits.get(field):
            yield Need(version=version, content=field, location=(*location, field))
