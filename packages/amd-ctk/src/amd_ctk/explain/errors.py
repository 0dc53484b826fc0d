"""What cannot be explained."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class ExplainError(ToolkitError):
    """A container that cannot be explained: its words, its file or its engine cannot be read."""

    exit_code = 2
