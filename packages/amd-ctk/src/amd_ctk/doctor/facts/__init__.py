"""What checks judge. Every module reads one part of it, once, and never fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from amdgpu_discovery.errors import ToolkitError

T = TypeVar("T")


def read_or(read: Callable[[], T], default: T) -> T:
    """Return what is read, a default where that fails in an expected way; other checks say why."""
    try:
        return read()
    except ToolkitError:
        return default
