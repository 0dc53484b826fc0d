"""The rules of the CDI specification that a schema cannot express."""

from __future__ import annotations

from amd_device_spec.cdi_names import ALPHANUMERIC, LABEL_CHARACTERS, kind_problem, name_problem
from amd_device_spec.cdi_version import VERSIONS, needed_version
from amd_device_spec.validate import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from amd_device_spec.validate import Place

# Of all annotations of a device together, in bytes.
LONGEST_ANNOTATIONS = 256 * 1024
LONGEST_LABEL = 63
LONGEST_PREFIX = 253


def rule_problems(spec: dict[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a spec that the schema accepts."""
    yield from _version_problems(spec)
    if problem := kind_problem(spec["kind"]):
        yield Problem(place=("kind",), message=f"{spec['kind']!r} {problem}")
    yield from _annotation_problems(spec, ())
    yield from _device_problems(spec["devices"])


def _version_problems(spec: dict[str, Any]) -> Iterator[Problem]:
    version = spec["cdiVersion"]
    if version not in VERSIONS:
        yield Problem(place=("cdiVersion",), message=f"CDI has no version {version!r}")
        return
    need = needed_version(spec)
    if VERSIONS.index(version) < VERSIONS.index(need.version):
        yield Problem(place=need.place, message=f"{need.content} needs cdiVersion {need.version}, not {version}")


def _device_problems(devices: list[dict[str, Any]]) -> Iterator[Problem]:
    first_by_name: dict[str, int] = {}
    for position, device in enumerate(devices):
        name, place = device["name"], ("devices", position)
        if problem := name_problem(name):
            yield Problem(place=(*place, "name"), message=f"{name!r} {problem}")
        if name in first_by_name:
            message = f"{name!r} is the name of devices[{first_by_name[name]}] already"
            yield Problem(place=(*place, "name"), message=message)
        first_by_name.setdefault(name, position)
        if not any(device["containerEdits"].values()):
            yield Problem(place=(*place, "containerEdits"), message="empty")
        yield from _annotation_problems(device, place)


def _annotation_problems(owner: dict[str, Any], place: Place) -> Iterator[Problem]:
    annotations = owner.get("annotations", {})
    for key in annotations:
        if problem := _annotation_key_problem(key):
            yield Problem(place=(*place, "annotations", key), message=problem)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LONGEST_ANNOTATIONS:
        yield Problem(place=(*place, "annotations"), message=f"longer than {LONGEST_ANNOTATIONS} bytes")


def _annotation_key_problem(key: str) -> str:
    prefix, slash, label = key.rpartition("/")
    if slash and not _is_domain(prefix):
        return f"{prefix!r} is not a DNS name in lower case"
    return "" if _is_label(label) else f"{label!r} is not a word of letters, digits, '-', '_' and '.'"


def _is_domain(prefix: str) -> bool:
    plain = prefix.isascii() and prefix == prefix.lower() and "_" not in prefix and len(prefix) <= LONGEST_PREFIX
    return plain and all(_is_label(label) for label in prefix.split("."))


def _is_label(label: str) -> bool:
    if not label or len(label) > LONGEST_LABEL or set(label) - LABEL_CHARACTERS:
        return False
    return label[0] in ALPHANUMERIC and label[-1] in ALPHANUMERIC
