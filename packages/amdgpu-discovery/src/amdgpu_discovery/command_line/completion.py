"""Completion of GPUs with the TAB key; it offers nothing if there is no driver."""

from __future__ import annotations

import os

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import host_from_environment


def complete_gpus(incomplete: str) -> list[str]:
    """Return the GPU numbers of this host, and `all`, that complete a text. In a list, its last item is completed."""
    from amdgpu_discovery.numbering import locate_gpus

    try:
        numbers = [str(gpu.number) for gpu in locate_gpus(host_from_environment(os.environ))]
    except (OSError, ToolkitError):
        return []
    before, comma, last = incomplete.rpartition(",")
    words = numbers if comma else [*numbers, "all"]
    return [f"{before}{comma}{word}" for word in words if word.startswith(last)]
