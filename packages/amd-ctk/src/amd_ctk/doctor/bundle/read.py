"""Read a bundle from another host, and run the checks on it; the bundle is untrusted and never unpacked to disk."""

from __future__ import annotations

import io
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.run import Result, run_checks
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value, ValueType

# The memory that unpacking may use; xz archives can ask for gigabytes.
MEMORY = 256 * 1024 * 1024
FACTS = "facts.json"
LARGEST_MEMBER = 1024 * 1024
MOST_BUNDLE_FILES = 64
# Limits of the whole archive, packed and unpacked.
LARGEST_PACKED = 4 * 1024 * 1024
LARGEST_UNPACKED = 16 * 1024 * 1024


class BundleError(ToolkitError):
    """A bundle that cannot be written or understood."""

    exit_code = 2


def read_members(path: str) -> dict[str, bytes]:
    """Return the files of a bundle by name; BundleError."""
    try:
        content, _ = read_plain_file(path, largest=LARGEST_PACKED)
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {reason(error)}") from error
    try:
        with tarfile.open(fileobj=io.BytesIO(_unpack(content)), mode="r:") as archive:
            return dict(_read(archive))
    except (tarfile.TarError, ValueError, EOFError, IndexError, OverflowError) as error:
        raise BundleError(f"{path} is not a bundle: {error}") from error


def _unpack(content: bytes) -> bytes:
    try:
        unpacker = lzma.LZMADecompressor(memlimit=MEMORY)
        unpacked = unpacker.decompress(content, LARGEST_UNPACKED)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("it is cut off or too large")
    return unpacked


def _read(archive: Any) -> list[tuple[str, bytes]]:
    members: list[tuple[str, bytes]] = []
    for member in archive:
        if not member.isreg() or member.size > LARGEST_MEMBER or len(members) >= MOST_BUNDLE_FILES:
            raise ValueError(f"{member.name[:80]!r} does not belong there")
        file = archive.extractfile(member)
        members.append((member.name, file.read(LARGEST_MEMBER)))
    return members


def replay_bundle(path: str, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return the results of the checks for the host of a bundle; BundleError."""
    document = _load_facts(read_members(path))
    try:
        return run_checks(parse_facts(document), only=only, skip=skip, engine=engine)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise BundleError(f"{path} cannot be understood: {error}") from error


def _load_facts(members: dict[str, bytes]) -> dict[str, Any]:
    if FACTS not in members:
        raise BundleError(f"the bundle has no {FACTS}", hint="read its doctor.json, or ask for a new bundle")
    try:
        document = json.loads(members[FACTS])
    except (ValueError, RecursionError) as error:
        words = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise BundleError(f"the bundle's {FACTS} is not JSON: {words}") from error
    if not isinstance(document, dict):
        raise BundleError(f"the bundle's {FACTS} is not a JSON object")
    return document


def parse_facts(document: dict[str, Any]) -> Facts:
    """Return the facts in a JSON document; ValueError if it is invalid."""
    return Facts.from_json(document, dict(_types_in(Facts)))


def _types_in(value_type: type[Value]) -> Iterator[tuple[str, type[Value]]]:
    """Yield each Value class that the fields of this one use, directly or not, with its name in annotations."""
    known = vars(sys.modules[value_type.__module__])
    for name in re.findall(r"\w+", " ".join(value_type.fields().values())):
        if isinstance(known.get(name), ValueType):
            yield name, known[name]
            yield from _types_in(known[name])
