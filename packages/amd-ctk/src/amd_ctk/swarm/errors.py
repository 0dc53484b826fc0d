"""What can go wrong between a node and its swarm."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class SwarmError(ToolkitError):
    """A node that cannot offer its GPUs as asked, or an engine that does not do as it is told."""
