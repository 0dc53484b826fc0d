"""What can be wrong with a spec."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class SpecError(ToolkitError):
    """A spec of a shape that no engine writes; `message` says what is wrong without naming the file."""

    exit_code = 6
