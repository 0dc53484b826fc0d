"""The facts that checks judge. Each module reads one part of them, once, and never fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from amdgpu_discovery.errors import ToolkitError

T = TypeVar("T")


def read_or(read: Callable[[], T], default: T) -> T:
    """Return what `read` returns, the default if it raises ToolkitError; other checks report the reason."""
    try:
        return read()
    except ToolkitError:
        return default
