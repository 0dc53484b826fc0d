"""Find the targets of code inside programs and libraries: HIP embeds a bundle of code objects in each ELF file.

clang names each object of a bundle by its triple and target (LLVM, "Clang Offload Bundler").
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable
from struct import unpack_from

from amd_gpu_images.bounds import ImageError
from amd_gpu_images.content.contents import TARGET, UNREADABLE
from amd_gpu_images.sources import zstd_pieces

MAGIC = b"CCOB"
# Size of the header by its version.
SIZES = {1: 20, 2: 24, 3: 32}
ZLIB, ZSTD = 0, 1
# Bytes of a bundle to decompress: enough for the names of a thousand targets.
BEGINNING = 1 << 16
# Bytes of compressed content needed for that: zstd decompresses only whole blocks, of at most 128 KiB.
MOST_NEEDED = (1 << 17) + 64
ELF = b"\x7fELF"
BUNDLED = re.compile(rb"(?:amdgcn|spirv64)-amd-amdhsa-(?:unknown)?-(gfx[0-9a-f-]{3,12}(?:generic)?|amdgcnspirv)")
# Longer than any name in a bundle, so that a name across two chunks is found.
LONGEST_TARGET_NAME = 128
# Limit per layer; libraries of ROCm have some thousand, one for each source file.
MOST_BUNDLES = 50_000


def beginning_of_bundle(content: bytes) -> bytes | None:
    """Decompress the beginning of a bundle, given content that starts with the magic; None if that fails.

    b"" means that the magic is there by chance.
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
    except (zlib.error, EOFError, ImageError):
        return None


def _decompress(content: bytes, method: int) -> bytes | None:
    if method == ZLIB:
        return zlib.decompressobj().decompress(content, BEGINNING)
    if method == ZSTD:
        return next(zstd_pieces(io.BytesIO(content), BEGINNING), None)
    return None


class Programs:
    """Searches the programs of one layer, and limits the number of bundles."""

    def __init__(self) -> None:
        self._bundles = 0

    def targets_in(self, chunks: Iterable[bytes]) -> set[str]:
        """Return the targets in a program's bundles, from its content in chunks; UNREADABLE for unreadable bundles."""
        found: set[str] = set()
        rest = b""
        for chunk in chunks:
            text = rest + chunk
            found |= _named(text, max(0, len(rest) - LONGEST_TARGET_NAME))
            # A bundle may continue in the next chunk.
            end = max(0, len(text) - MOST_NEEDED)
            found |= self._compressed(text, end)
            rest = text[end:]
        return found | self._compressed(rest, len(rest))

    def _compressed(self, text: bytes, end: int) -> set[str]:
        """Return the targets in the compressed bundles that begin before `end`."""
        found: set[str] = set()
        at = text.find(MAGIC, 0, end + len(MAGIC) - 1)
        while at >= 0:
            self._bundles += 1
            if self._bundles > MOST_BUNDLES:
                raise ImageError(f"a layer has more than {MOST_BUNDLES} compressed bundles of code")
            beginning = beginning_of_bundle(text[at : at + MOST_NEEDED])
            found |= {UNREADABLE} if beginning is None else _named(beginning)
            at = text.find(MAGIC, at + 1, end + len(MAGIC) - 1)
        return found


def _named(text: bytes, start: int = 0) -> set[str]:
    names = set(BUNDLED.findall(text, start))
    return {match.group() for name in names if (match := TARGET.match(name.decode("ascii")))}
