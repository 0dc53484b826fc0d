"""A host on which anything may be broken, as doctor's hosts are."""

from __future__ import annotations

import os

from amdgpu_discovery.host import Host


class BrokenHost(Host):
    """A host whose directories may be closed to this user, or links that lead in a circle: nothing is found there."""

    __slots__ = ()

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, [] where it cannot be listed."""
        try:
            return super().names(path)
        except OSError:
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """Return what `path` leads to, None where nobody can tell."""
        try:
            return super().stat(path)
        except OSError:
            return None
