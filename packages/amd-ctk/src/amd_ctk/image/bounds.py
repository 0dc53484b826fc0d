"""Limits for reading an image, whose layers are not trusted, and its progress."""

from __future__ import annotations

import sys
import time

from amdgpu_discovery.errors import ToolkitError

# Of one image; the largest of AMD's have a million.
MOST_NAMES = 5_000_000
# A manifest may name one layer many times; engines mount at most 128.
MOST_LAYERS = 512
# Of the files of one layer by their headers: a compressed layer can claim any size.
LARGEST_LAYER = 2**40
# Of all layers of an image, as far as they were read.
LARGEST_IMAGE = 2**40
# Processor time in seconds for one image, and for each MiB of it: xz unpacks 10 MiB in a second, bzip2 5.
PATIENCE = 60.0
SECONDS_OF_MIB = 1.0
# Of the names that are kept of one image, those of files with code and of deletions; images have a tenth of that.
LARGEST_KEPT = 32 * 1024 * 1024
# How often progress is shown.
STEP = 1 << 14
STEP_OF_SIZE = 1 << 28
GIBIBYTE = 2**30
MEBIBYTE = 2**20


class ImageError(ToolkitError):
    """An image that cannot be read or judged on this host, or a reference, template or list of tags without meaning."""

    exit_code = 2


class Reading:
    """How an image is read, `deep` into its programs or not, and what all its layers have cost.

    It shows one line that is written over, and that the end of a `with` takes away.
    """

    def __init__(self, *, deep: bool = False) -> None:
        self.deep = deep
        self.layer = ""
        self.names = 0
        self.kept = 0
        # Bytes of its files, and bytes that were decompressed to read them.
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
        """Raise ImageError where an image costs more than one of its size may: 1 MB of bzip2 may be 900 GB."""
        if time.process_time() - self._began > PATIENCE + SECONDS_OF_MIB * self.taken / MEBIBYTE:
            raise ImageError("reading it takes more processor time than any image of its size needs")

    def show(self, names: int, size: int) -> None:
        """Show how many names of the current layer were read, and how many bytes its files have."""
        if self._is_shown:
            text = f"reading {self.layer}: {names} names, {size / GIBIBYTE:.1f} GiB"
            print(f"\r{text[:78]:<78}", end="", file=sys.stderr, flush=True)


class Counter:
    """Bounds what a layer may cost, and shows how far reading is."""

    def __init__(self, reading: Reading, *, is_shown: bool = True) -> None:
        self._reading = reading
        self._is_shown = is_shown
        self._names = 0
        self._size = 0
        self._shown = (0, 0)

    def count(self, names: int) -> None:
        """Count names; ImageError where there are too many."""
        self._names += names
        self._reading.names += names
        if self._reading.names > MOST_NAMES:
            raise ImageError(f"it has more than {MOST_NAMES} files, more than any image needs")

    def keep(self, size: int) -> None:
        """Count what is kept of the names of a layer; ImageError where all layers of an image keep too much."""
        self._reading.kept += size
        if self._reading.kept > LARGEST_KEPT:
            raise ImageError("the names of files with code and of deletions in an image take more than 32 MiB")

    def bound(self, size: int) -> None:
        """Raise ImageError where a layer with so many bytes more is too large."""
        if self._size + size > LARGEST_LAYER:
            raise ImageError("the files of a layer claim to be larger than 1 TiB")

    def take(self, size: int) -> None:
        """Count bytes that are decompressed; ImageError where that has taken too long."""
        self._reading.taken += size
        self._reading.bound_time()

    def pass_by(self, size: int) -> None:
        """Count bytes that were read or skipped, and show it from time to time; ImageError where it is too much."""
        self._size += size
        self._reading.size += size
        if self._reading.size > LARGEST_IMAGE:
            raise ImageError("the files of an image are larger than 1 TiB")
        self._reading.bound_time()
        steps = (self._names // STEP, self._size // STEP_OF_SIZE)
        if self._is_shown and steps != self._shown:
            self._shown = steps
            self._reading.show(self._names, self._size)
