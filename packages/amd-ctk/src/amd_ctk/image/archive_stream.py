"""The archive around the layers, as a stream for tarfile, which would decompress it and read headers without bound."""

from __future__ import annotations

from tarfile import ReadError

from amd_ctk.image.bounds import LARGEST_LAYER, Counter, ImageError, Progress
from amd_ctk.image.compression import LONGEST_MAGIC, Beginning, Readable, compression_of
from amd_ctk.image.sources import open_source

# Of one archive: names, records of pax, maps of sparse files. A member has two or three KiB at most.
LARGEST_HEADERS = 16 * 1024 * 1024


class ArchiveStream:
    """An archive of which no more is read than its members have, and some headers."""

    def __init__(self, stream: Readable, progress: Progress) -> None:
        start = stream.read(LONGEST_MAGIC) or b""
        counter = Counter(progress, is_shown=False)
        self._source = open_source(Beginning(start, stream, counter), compression_of(start), counter)
        self._read = 0
        self._bound = LARGEST_HEADERS

    def read(self, _: int) -> bytes:
        """Return the next piece, b"" at the end; it may be shorter than what was asked for."""
        try:
            piece = self._source.next()
        except OSError as error:
            if error.errno is not None:
                raise
            # What gzip and bz2 say of a stream that is damaged.
            raise ReadError(str(error)) from error
        self._read += len(piece)
        # A piece begins before the bound, so one may end behind it.
        if self._read - len(piece) > self._bound:
            raise ImageError("the headers of an archive are larger than any image needs")
        return piece

    def allow(self, size: int) -> None:
        """Let the content of a member be read."""
        self._bound += size
        if self._bound > LARGEST_LAYER:
            raise ImageError("the files of an archive claim to be larger than 1 TiB")
