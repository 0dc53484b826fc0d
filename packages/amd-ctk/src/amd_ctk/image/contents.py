"""What the layers of an image come to: a layer adds files, and deletes files of those below it."""

from __future__ import annotations

from array import array

from amd_ctk.image.deep import UNREADABLE
from amd_ctk.image.errors import ImageError
from amd_ctk.image.names import OPAQUE, WHITEOUT, clean, targets_in
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Images have a tenth of that; of each a few hundred bytes are kept.
MOST_KEPT = 200_000


class LayerContents:
    """What one layer says about targets: the files that have code, and what it takes from the layers below."""

    __slots__ = ("_directories", "deleted", "emptied", "hashes", "targets_by_path")

    def __init__(self) -> None:
        self.targets_by_path: dict[str, tuple[str, ...]] = {}
        self.deleted: set[str] = set()
        self.emptied: set[str] = set()
        # Directories whose names are those of files with code.
        self._directories: set[str] = set()
        # Of the names of everything but directories, as fields of headers: 8 bytes each, because there may be millions.
        self.hashes = array("q")

    def add(self, name: str, targets: Iterable[str] = ()) -> None:
        """Note a file of the layer; `targets` are those that were found in it."""
        path = clean(name)
        directory, _, base = path.rpartition("/")
        if base == OPAQUE:
            self.emptied.add(directory)
        elif base.startswith(WHITEOUT):
            self.deleted.add(f"{directory}/{base.removeprefix(WHITEOUT)}".lstrip("/"))
        elif path and (found := tuple(sorted({*targets, *targets_in(path)}))):
            self.targets_by_path[path] = found
        self._bound()

    def add_directory(self, name: str) -> None:
        """Note a directory, which may stand where a layer below has a file."""
        path = clean(name)
        if targets_in(path):
            self._directories.add(path)
            self._bound()

    def note_path(self, name: str) -> None:
        """Note that there is something other than a directory, by its whole name."""
        self.hashes.append(hash(_field(clean(name))))

    def remove_from(self, paths: Iterable[str]) -> set[str]:
        """Return which paths of the layers below are gone: deleted, or behind something else of that name."""
        paths_by_hash = {hash(form): path for path in _with_parents(paths) for form in _forms(path)}
        # A million hashes are looked up in a hundredth of a second.
        hidden = {paths_by_hash[name] for name in self.hashes if name in paths_by_hash}
        gone = self.deleted | hidden
        return {path for path in paths if path in self._directories or self._has_gone(path, gone)}

    def _has_gone(self, path: str, gone: set[str]) -> bool:
        """Return whether a path is gone, by itself or with a directory above it."""
        return path in gone or "" in self.emptied or any(up in gone or up in self.emptied for up in _parents(path))

    def _bound(self) -> None:
        if sum(map(len, (self.targets_by_path, self.deleted, self.emptied, self._directories))) > MOST_KEPT:
            raise ImageError(f"a layer has more than {MOST_KEPT} files with code or deletions")


class Image(Value):
    """What is known of an image: its layers, the lowest first, and what its configuration says."""

    layers: tuple[LayerContents, ...]
    environment: tuple[str, ...] = ()
    labels: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which nobody changes
    # Of the index entry and the manifest.
    annotations: dict[str, str] = {}  # noqa: RUF012
    # x86-64-v3 where the index says so, else "".
    cpu: str = ""


def targets_of(layers: Iterable[LayerContents]) -> list[str]:
    """Return the targets of an image, sorted; the lowest of its layers comes first."""
    targets = {target for found in code_in(layers).values() for target in found}
    return sorted(targets - {UNREADABLE}, key=_order)


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


def _parents(path: str) -> Iterator[str]:
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)


def _with_parents(paths: Iterable[str]) -> set[str]:
    return {each for path in paths for each in (path, *_parents(path))}


def _forms(path: str) -> tuple[bytes, ...]:
    """Return how a path may stand in a header of tar."""
    return _field(path), _field(f"./{path}"), _field(f"/{path}")


def _field(name: str) -> bytes:
    # A name of a header has 100 bytes, and NUL behind it.
    return name.encode("utf-8", "surrogateescape").ljust(100, b"\0")


def _order(target: str) -> tuple[int, str]:
    # gfx942 before gfx1100, as AMD lists them.
    return len(target), target
