"""Read the names in a layer as a stream: nothing is unpacked, and no link is followed.

libarchive reads every compression at C's speed; without libarchive-c Python's tarfile takes ten times as long.
"""

from __future__ import annotations

from amd_ctk.image.bounds import Counter
from amd_ctk.image.compression import LONGEST_MAGIC, Beginning, compression_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_ctk.image.compression import Readable
    from amd_ctk.image.contents import LayerContents
    from amd_ctk.image.progress import Progress


def read_layer(file: Readable, progress: Progress, *, deep: bool = False) -> LayerContents:
    """Return what a layer says; `deep` looks into its programs and libraries. ImageError where it cannot be read."""
    start = file.read(LONGEST_MAGIC) or b""
    return _find_reader()(Beginning(start, file), compression_of(start), Counter(progress), deep)


def _find_reader() -> Callable[[Beginning, str, Counter, bool], LayerContents]:
    try:
        from amd_ctk.image.read_with_libarchive import read
    except (ImportError, OSError, AttributeError):
        # libarchive-c may be there without the library that it loads: then it looks for its functions in Python.
        from amd_ctk.image.read_with_tarfile import read
    return read
