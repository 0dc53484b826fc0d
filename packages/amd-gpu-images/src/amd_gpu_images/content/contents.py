"""Combine the layers of an image: each layer adds files, and deletes files of the layers below it."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

from amd_gpu_images.bounds import LARGEST_KEPT, ImageError
from amdgpu_discovery.tables.targets import TARGET_PATTERN
from amdgpu_discovery.value import Value

# LLVM's processors from gfx600 on. Anything may follow: MIOpen appends the number of compute units (gfx90a68.kdb).
# SPIR-V is compiled for the GPU when it is loaded.
TARGET = re.compile(TARGET_PATTERN)
# Files of rocBLAS, hipBLASLt, MIOpen, PyTorch and AOTriton with code for the targets in their paths.
CODE_SUFFIXES = (".co", ".dat", ".hsaco", ".kdb", ".kdb.bz2", ".aks2")
# OCI image specification, "Whiteouts".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# PATH_MAX of Linux.
LONGEST_PATH = 4096
# Takes the place of a target if a file has a bundle whose targets cannot be read.
UNREADABLE = "unreadable"
# Limit for the path of a file with code; real directories are less than half as deep.
DEEPEST_PATH = 64
# Limit for directories above an image's files with code; a real image has a thousand.
MOST_CODE_DIRECTORIES = 100_000
# Memory of a Python string in addition to its characters.
SIZE_OF_STRING = 64


class LayerContents:
    """The files with code in one layer, and the paths that it deletes from the layers below."""

    def __init__(self) -> None:
        self.targets_by_path: dict[str, tuple[str, ...]] = {}
        self.deleted: set[str] = set()
        self.emptied: set[str] = set()
        # Directories named like files with code.
        self._directories: set[str] = set()
        # Hashes of the names of everything but directories, as in tar headers: 8 bytes each, as there may be millions.
        self.hashes = array("q")
        # Approximate memory of the names above, in bytes.
        self.kept = 0

    def add(self, name: str, targets: Iterable[str] = ()) -> None:
        """Add a file of the layer; `targets` are those found inside the file."""
        path = clean(name)
        directory, _, base = path.rpartition("/")
        if base == OPAQUE:
            self._bound(directory)
            self.emptied.add(directory)
        elif base.startswith(WHITEOUT):
            self._bound(path)
            self.deleted.add(f"{directory}/{base.removeprefix(WHITEOUT)}".lstrip("/"))
        elif path and (found := tuple(sorted({*targets, *targets_in(path)}))):
            self._bound(path, found)
            if path.count("/") >= DEEPEST_PATH:
                raise ImageError(f"a file with code is more than {DEEPEST_PATH} directories deep")
            self.targets_by_path[path] = found

    def add_directory(self, name: str) -> None:
        """Add a directory, which may replace a file of a layer below."""
        path = clean(name)
        if targets_in(path):
            self._bound(path)
            self._directories.add(path)

    def note_path(self, name: str) -> None:
        """Record that this path is something other than a directory."""
        self.hashes.append(hash(_field(clean(name))))

    def remove_from(self, paths: Iterable[str]) -> set[str]:
        """Return which of these paths from the layers below are deleted or replaced by this layer."""
        paths_by_form = _forms_of(paths)
        # Looking up a million hashes takes a hundredth of a second.
        hidden = {paths_by_form[name] for name in self.hashes if name in paths_by_form}
        removed_by_path = dict.fromkeys(hidden | set(map(hash, self.deleted)), True)
        return {path for path in paths if path in self._directories or self._is_removed(path, removed_by_path)}

    def _is_removed(self, path: str, removed_by_path: dict[int, bool]) -> bool:
        """Return whether this layer removed a path or a directory above it. The dictionary has hashes, to save memory.

        Each directory is checked once, however many files it has.
        """
        key = hash(path)
        if key not in removed_by_path:
            directory = path.rpartition("/")[0]
            removed_by_path[key] = directory in self.emptied or (
                directory != "" and self._is_removed(directory, removed_by_path)
            )
        return removed_by_path[key]

    def _bound(self, path: str, found: tuple[str, ...] = ()) -> None:
        self.kept += len(path) + SIZE_OF_STRING * (2 + len(found))
        if self.kept > LARGEST_KEPT:
            raise ImageError("the names of files with code and of deletions in a layer take more than 32 MiB")


class Image(Value):
    """The known facts about an image: its layers from the lowest up, and its configuration."""

    layers: tuple[LayerContents, ...]
    environment: tuple[str, ...] = ()
    labels: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # From the index entry and the manifest.
    annotations: dict[str, str] = {}  # noqa: RUF012
    # For example x86-64-v3, if the index names a level; else "".
    cpu: str = ""


def targets_of(layers: Iterable[LayerContents]) -> list[str]:
    """Return the sorted targets of an image; the lowest layer must be first."""
    targets = {target for found in code_in(layers).values() for target in found}
    # Sorts gfx942 before gfx1100, as AMD does.
    return sorted(targets - {UNREADABLE}, key=lambda target: (len(target), target))


def unreadable_in(layers: Iterable[LayerContents]) -> list[str]:
    """Return the programs that contain code whose targets cannot be read."""
    return sorted(path for path, found in code_in(layers).items() if UNREADABLE in found)


def code_in(layers: Iterable[LayerContents]) -> dict[str, tuple[str, ...]]:
    """Return the targets of each file with code in an image, by path."""
    targets_by_path: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        for path in layer.remove_from(targets_by_path) if targets_by_path else ():
            del targets_by_path[path]
        targets_by_path.update(layer.targets_by_path)
    return targets_by_path


def targets_in(path: str) -> list[str]:
    """Return the targets in the path of a file with code."""
    return TARGET.findall(path) if path.endswith(CODE_SUFFIXES) else []


def clean(path: str) -> str:
    """Return a path in a layer without leading "./" or "/"; "" if it leads out of the layer or is too long."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "" if ".." in parts or len(path) > LONGEST_PATH else "/".join(parts)


def _forms_of(paths: Iterable[str]) -> dict[int, int]:
    """Map the hashes of tar header names to the hashes of their paths, for `paths` and all directories above them."""
    paths_by_form: dict[int, int] = {}
    seen: set[int] = set()
    files = 0
    for files, path in enumerate(paths, 1):
        at = path
        while at and (key := hash(at)) not in seen:
            seen.add(key)
            paths_by_form.update({hash(_field(form)): key for form in (at, f"./{at}", f"/{at}")})
            at = at.rpartition("/")[0]
        if len(seen) - files > MOST_CODE_DIRECTORIES:
            raise ImageError(f"the files with code of an image are in more than {MOST_CODE_DIRECTORIES} directories")
    return paths_by_form


def _field(name: str) -> bytes:
    # The name field of a header has 100 bytes, padded with NUL.
    return name.encode("utf-8", "surrogateescape").ljust(100, b"\0")
