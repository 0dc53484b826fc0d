"""Read a bundle from another host, and let the checks judge it: it is not trusted, unpacked or written."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterable
from typing import Any

from amd_ctk.doctor.bundle.facts_json import parse_facts
from amd_ctk.doctor.bundle.members import (
    FACTS,
    LARGEST_MEMBER,
    LARGEST_PACKED,
    LARGEST_UNPACKED,
    MOST_MEMBERS,
    BundleError,
)
from amd_ctk.doctor.run import Result, run_checks
from amdgpu_discovery.errors import reason
from amdgpu_discovery.plain_files import read_plain_file

# What unpacking may use of memory; xz allows its archives to ask for gigabytes.
MEMORY = 256 * 1024 * 1024


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
        if not member.isreg() or member.size > LARGEST_MEMBER or len(members) >= MOST_MEMBERS:
            raise ValueError(f"{member.name[:80]!r} does not belong there")
        file = archive.extractfile(member)
        members.append((member.name, file.read(LARGEST_MEMBER)))
    return members


def replay_bundle(path: str, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return what the checks say of the host of a bundle; BundleError."""
    document = _load(read_members(path), FACTS)
    try:
        return run_checks(parse_facts(document), only=only, skip=skip, engine=engine)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise BundleError(f"{path} cannot be understood: {error}") from error


def _load(members: dict[str, bytes], name: str) -> dict[str, Any]:
    if name not in members:
        raise BundleError(f"the bundle has no {name}", hint="read its doctor.json, or ask for a new bundle")
    try:
        document = json.loads(members[name])
    except (ValueError, RecursionError) as error:
        raise BundleError(f"the bundle's {name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BundleError(f"the bundle's {name} is not a JSON object")
    return document
