"""What can go wrong with the CDI specs of a host."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class CdiError(ToolkitError):
    """A CDI spec that cannot be made, written or read."""


def cannot_generate(error: ToolkitError, doing: str = "") -> CdiError:
    """Return the error for a spec that could not be made."""
    return CdiError(f"failed to generate CDI spec: {doing}{error.message}", hint=error.hint)


def cannot_write(problem: str, hint: str = "") -> CdiError:
    """Return the error for a spec that could not be written; the old file is as it was."""
    return CdiError(f"failed to write CDI spec: {problem}", hint=hint)
