"""What can go wrong between a node and its swarm."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class SwarmError(ToolkitError):
    """A node cannot advertise its GPUs as requested, or a docker command fails."""
