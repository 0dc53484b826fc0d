"""Read the targets of compressed bundles of code objects, as clang makes them with --offload-compress.

LLVM, "Clang Offload Bundler", "Compressed Offload Bundle": magic, version (2 bytes), method (2), from version 2 on the
size of all of it, the size without compression (4 bytes each, 8 in version 3), a hash (8), and the bundle. That begins
with the names of its targets, so the first few KiB of it are enough.
"""

from __future__ import annotations

import io
import zlib
from struct import unpack_from

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.zstd import ZstdMissing, zstd_pieces

MAGIC = b"CCOB"
# Of the header, by its version.
SIZES = {1: 20, 2: 24, 3: 32}
ZLIB, ZSTD = 0, 1
# Of a bundle: room for the names of a thousand targets.
BEGINNING = 1 << 16
# Of compressed content: zstd decompresses whole blocks of at most 128 KiB only.
MOST_NEEDED = (1 << 17) + 64


def beginning_of_bundle(content: bytes) -> bytes | None:
    """Return the beginning of the bundle in what begins with the magic; None where it cannot be decompressed.

    b"" where the magic is there by chance.
    """
    if len(content) < min(SIZES.values()):
        return b""
    version, method = unpack_from("<HH", content, len(MAGIC))
    if version == 0 or version > 9 or method > 9:
        return b""
    if version not in SIZES:
        return None
    try:
        return _decompress(content[SIZES[version] : MOST_NEEDED], method)
    except (zlib.error, EOFError, ImageError, ZstdMissing):
        return None


def _decompress(content: bytes, method: int) -> bytes | None:
    if method == ZLIB:
        return zlib.decompressobj().decompress(content, BEGINNING)
    if method == ZSTD:
        return next(zstd_pieces(io.BytesIO(content), BEGINNING), None)
    return None
