"""Read a bundle that somebody sent: nothing of it is believed, and nothing is unpacked into files."""

from __future__ import annotations

import io
import lzma
import tarfile
from typing import Any

from amd_ctk.doctor.bundle.members import (
    LARGEST_MEMBER,
    LARGEST_PACKED,
    LARGEST_UNPACKED,
    MOST_MEMBERS,
    BundleError,
)
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
