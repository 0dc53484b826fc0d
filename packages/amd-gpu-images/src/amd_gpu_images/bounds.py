"""Limits for reading an image, whose layers are not trusted, and a progress line."""

from __future__ import annotations

import sys
import time

from amdgpu_discovery.errors import ToolkitError

# Limit for one image; AMD's largest images have a million files.
MOST_FILE_NAMES = 5_000_000
# A manifest may name one layer many times; engines mount at most 128.
MOST_MANIFEST_LAYERS = 512
# Limit for the file sizes in the headers of one layer: a compressed layer can claim any size.
LARGEST_LAYER = 2**40
# Limit for all layers of an image, as far as they have been read.
LARGEST_IMAGE = 2**40
# Processor time in seconds for an image, plus time for each MiB of it: xz unpacks 10 MiB per second, bzip2 5.
IMAGE_SECONDS = 60.0
SECONDS_OF_MIB = 1.0
# Limit for the names in memory, of files with code and of deletions. Real images need a tenth of it.
LARGEST_KEPT = 32 * 1024 * 1024
# The progress line is updated after this many names or bytes.
STEP = 1 << 14
STEP_OF_SIZE = 1 << 28
GIBIBYTE = 2**30
MEBIBYTE = 2**20


class ImageError(ToolkitError):
    """An image cannot be read or judged on this host, or a reference, template or list of tags is invalid."""

    exit_code = 2


class Reading:
    """One reading of an image: whether it goes `deep` into programs, and the cost of all layers so far.

    As a context manager, it clears the progress line at the end.
    """

    def __init__(self, *, deep: bool = False) -> None:
        self.deep = deep
        self.layer = ""
        self.names = 0
        self.kept = 0
        # Bytes of the image's files, and the compressed bytes read for them.
        self.size = 0
        self.taken = 0
        self._is_shown = sys.stderr.isatty()
        self._began = time.process_time()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)

    def bound_time(self) -> None:
        """Raise ImageError if reading costs too much time for the image's size: 1 MB of bzip2 may be 900 GB."""
        if time.process_time() - self._began > IMAGE_SECONDS + SECONDS_OF_MIB * self.taken / MEBIBYTE:
            raise ImageError("reading it takes more processor time than any image of its size needs")

    def show(self, names: int, size: int) -> None:
        """Show how many names of the current layer have been read, and the size of its files in bytes."""
        if self._is_shown:
            text = f"reading {self.layer}: {names} names, {size / GIBIBYTE:.1f} GiB"
            print(f"\r{text[:78]:<78}", end="", file=sys.stderr, flush=True)


class Counter:
    """Enforces the limits while one layer is read, and shows the progress."""

    def __init__(self, reading: Reading, *, is_shown: bool = True) -> None:
        self._reading = reading
        self._is_shown = is_shown
        self._names = 0
        self._size = 0
        self._shown = (0, 0)

    def count(self, names: int) -> None:
        """Count names; ImageError if there are too many."""
        self._names += names
        self._reading.names += names
        if self._reading.names > MOST_FILE_NAMES:
            raise ImageError(f"it has more than {MOST_FILE_NAMES} files, more than any image needs")

    def keep(self, size: int) -> None:
        """Count bytes of names kept in memory; ImageError if all layers of the image keep too many."""
        self._reading.kept += size
        if self._reading.kept > LARGEST_KEPT:
            raise ImageError("the names of files with code and of deletions in an image take more than 32 MiB")

    def bound(self, size: int) -> None:
        """Raise ImageError if `size` more bytes would make the layer too large."""
        if self._size + size > LARGEST_LAYER:
            raise ImageError("the files of a layer claim to be larger than 1 TiB")

    def take(self, size: int) -> None:
        """Count compressed bytes that were read; ImageError if reading has taken too long."""
        self._reading.taken += size
        self._reading.bound_time()

    def advance(self, size: int) -> None:
        """Count bytes of files that were read or skipped, and update the progress line; ImageError for too many."""
        self._size += size
        self._reading.size += size
        if self._reading.size > LARGEST_IMAGE:
            raise ImageError("the files of an image are larger than 1 TiB")
        self._reading.bound_time()
        steps = (self._names // STEP, self._size // STEP_OF_SIZE)
        if self._is_shown and steps != self._shown:
            self._shown = steps
            self._reading.show(self._names, self._size)
