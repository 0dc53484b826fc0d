"""What the layers of an image come to: a layer adds files, and deletes files of those below it."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

from amd_ctk.image.bounds import LARGEST_KEPT, ImageError
from amdgpu_discovery.value import Value

# LLVM's processors from gfx600 on. Anything may follow: MIOpen adds the number of compute units (gfx90a68.kdb).
# SPIR-V is compiled for the GPU on which it is loaded.
TARGET = re.compile(r"gfx(?:[0-9]+(?:-[0-9]+)?-generic|1[0-9]{2}[0-9a-f]|[6-9][0-9a-f]{2})|amdgcnspirv")
# Files of rocBLAS, hipBLASLt, MIOpen, PyTorch and AOTriton that have code for the targets in their path.
CODE_SUFFIXES = (".co", ".dat", ".hsaco", ".kdb", ".kdb.bz2", ".aks2")
# OCI image specification, "Whiteouts".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# PATH_MAX of Linux.
LONGEST_PATH = 4096
# In place of a target: a bundle is there, and what is in it cannot be told.
UNREADABLE = "unreadable"
# Of the path of a file with code; directories that programs make are not half as deep.
DEEPEST_PATH = 64
# Above the files with code of an image, which has a thousand.
MOST_DIRECTORIES = 100_000
# What a string costs beside its characters.
SIZE_OF_STRING = 64


class LayerContents:
    """What one layer says about targets: the files that have code, and what it takes from the layers below."""

    def __init__(self) -> None:
        self.targets_by_path: dict[str, tuple[str, ...]] = {}
        self.deleted: set[str] = set()
        self.emptied: set[str] = set()
        # Directories whose names are those of files with code.
        self._directories: set[str] = set()
        # Of the names of everything but directories, as fields of headers: 8 bytes each, because there may be millions.
        self.hashes = array("q")
        # How many bytes the names above take, about.
        self.kept = 0

    def add(self, name: str, targets: Iterable[str] = ()) -> None:
        """Note a file of the layer; `targets` are those that were found in it."""
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
        """Note a directory, which may stand where a layer below has a file."""
        path = clean(name)
        if targets_in(path):
            self._bound(path)
            self._directories.add(path)

    def note_path(self, name: str) -> None:
        """Note that there is something other than a directory, by its whole name."""
        self.hashes.append(hash(_field(clean(name))))

    def remove_from(self, paths: Iterable[str]) -> set[str]:
        """Return which paths of the layers below are gone: deleted, or behind something else of that name."""
        paths_by_form = _forms_of(paths)
        # A million hashes are looked up in a hundredth of a second.
        hidden = {paths_by_form[name] for name in self.hashes if name in paths_by_form}
        taken_by_path = dict.fromkeys(hidden | set(map(hash, self.deleted)), True)
        return {path for path in paths if path in self._directories or self._has_taken(path, taken_by_path)}

    def _has_taken(self, path: str, taken_by_path: dict[int, bool]) -> bool:
        """Return whether a path is gone, by itself or with a directory above it; by hashes, which are small.

        Each directory is looked at once, however many files it has.
        """
        key = hash(path)
        if key not in taken_by_path:
            directory = path.rpartition("/")[0]
            taken_by_path[key] = directory in self.emptied or (
                directory != "" and self._has_taken(directory, taken_by_path)
            )
        return taken_by_path[key]

    def _bound(self, path: str, found: tuple[str, ...] = ()) -> None:
        self.kept += len(path) + SIZE_OF_STRING * (2 + len(found))
        if self.kept > LARGEST_KEPT:
            raise ImageError("the names of files with code and of deletions in a layer take more than 32 MiB")


class Image(Value):
    """What is known of an image: its layers, the lowest first, and what its configuration says."""

    layers: tuple[LayerContents, ...]
    environment: tuple[str, ...] = ()
    labels: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # Of the index entry and the manifest.
    annotations: dict[str, str] = {}  # noqa: RUF012
    # x86-64-v3 where the index says so, else "".
    cpu: str = ""


def targets_of(layers: Iterable[LayerContents]) -> list[str]:
    """Return the targets of an image, sorted; the lowest of its layers comes first."""
    targets = {target for found in code_in(layers).values() for target in found}
    # gfx942 before gfx1100, as AMD lists them.
    return sorted(targets - {UNREADABLE}, key=lambda target: (len(target), target))


def unreadable_in(layers: Iterable[LayerContents]) -> list[str]:
    """Return the programs that have code for targets that cannot be told."""
    return sorted(path for path, found in code_in(layers).items() if UNREADABLE in found)


def code_in(layers: Iterable[LayerContents]) -> dict[str, tuple[str, ...]]:
    """Return the targets of each file with code that an image has, by their paths."""
    targets_by_path: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        for path in layer.remove_from(targets_by_path) if targets_by_path else ():
            del targets_by_path[path]
        targets_by_path.update(layer.targets_by_path)
    return targets_by_path


def targets_in(path: str) -> list[str]:
    """Return the targets for which a file has code, by its path."""
    return TARGET.findall(path) if path.endswith(CODE_SUFFIXES) else []


def clean(path: str) -> str:
    """Return a path in a layer without "./" or "/" in front; "" where it leads out of the layer or is too long."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "" if ".." in parts or len(path) > LONGEST_PATH else "/".join(parts)


def _forms_of(paths: Iterable[str]) -> dict[int, int]:
    """Return the hashes of paths and of all directories above them, by the hashes of their forms in headers of tar."""
    paths_by_form: dict[int, int] = {}
    seen: set[int] = set()
    files = 0
    for files, path in enumerate(paths, 1):
        at = path
        while at and (key := hash(at)) not in seen:
            seen.add(key)
            paths_by_form.update({hash(_field(form)): key for form in (at, f"./{at}", f"/{at}")})
            at = at.rpartition("/")[0]
        if len(seen) - files > MOST_DIRECTORIES:
            raise ImageError(f"the files with code of an image are in more than {MOST_DIRECTORIES} directories")
    return paths_by_form


def _field(name: str) -> bytes:
    # A name of a header has 100 bytes, and NUL behind it.
    return name.encode("utf-8", "surrogateescape").ljust(100, b"\0")
