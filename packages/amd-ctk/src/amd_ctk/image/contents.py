"""What the layers of an image come to: a layer adds files, and deletes files of those below it."""

from __future__ import annotations

from amd_ctk.image.errors import ImageError
from amd_ctk.image.names import OPAQUE, WHITEOUT, clean, targets_in
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Images have a tenth of that; of each a few hundred bytes are kept.
MOST_KEPT = 200_000


class LayerContents:
    """What one layer says about targets: the files that have code, and what it deletes of the layers below."""

    __slots__ = ("deleted", "emptied", "targets_by_path")

    def __init__(self) -> None:
        self.targets_by_path: dict[str, tuple[str, ...]] = {}
        self.deleted: set[str] = set()
        self.emptied: set[str] = set()

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
        if len(self.targets_by_path) + len(self.deleted) + len(self.emptied) > MOST_KEPT:
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
    targets_by_path: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        if layer.deleted or layer.emptied:
            targets_by_path = {path: found for path, found in targets_by_path.items() if not _is_deleted(path, layer)}
        targets_by_path.update(layer.targets_by_path)
    return sorted({target for found in targets_by_path.values() for target in found}, key=_order)


def _is_deleted(path: str, layer: LayerContents) -> bool:
    """Return whether a layer deletes a path of those below it, itself or with a directory above it."""
    if path in layer.deleted or "" in layer.emptied:
        return True
    end = path.rfind("/")
    while end > 0:
        directory = path[:end]
        if directory in layer.deleted or directory in layer.emptied:
            return True
        end = path.rfind("/", 0, end)
    return False


def _order(target: str) -> tuple[int, str]:
    # gfx942 before gfx1100, as AMD lists them.
    return len(target), target
