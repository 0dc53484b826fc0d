"""Read the names in a layer as a stream, however it is compressed."""

from __future__ import annotations

from amd_ctk.image.bounds import Counter
from amd_ctk.image.compression import LONGEST_MAGIC, Beginning, compression_of
from amd_ctk.image.sources import open_source
from amd_ctk.image.tar_layer import TarLayer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.image.compression import Readable
    from amd_ctk.image.contents import LayerContents
    from amd_ctk.image.progress import Progress


def read_layer(file: Readable, progress: Progress, *, deep: bool = False) -> LayerContents:
    """Return what a layer says; `deep` looks into its programs and libraries. ImageError where it cannot be read."""
    start = file.read(LONGEST_MAGIC) or b""
    counter = Counter(progress)
    source = open_source(Beginning(start, file), compression_of(start), counter)
    layer = TarLayer(source, counter, deep=deep).read()
    counter.keep(layer.kept)
    return layer
