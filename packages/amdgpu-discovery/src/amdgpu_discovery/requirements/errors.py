"""The error of an image that does not fit, or of which nobody can say whether it does."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError

HINT = "AMD_DISABLE_REQUIRE=true starts it anyway"


class RequirementError(ToolkitError):
    """An image requires what the GPUs of its container or their host do not have.

    Attributes:
        clause: What is the case, without the variable that requires something else.
    """

    exit_code = 10

    def __init__(self, message: str, *, hint: str = "", clause: str = "") -> None:
        super().__init__(message, hint=hint)
        self.clause = clause or message


def not_judged(message: str) -> RequirementError:
    """Return the error for a requirement that means nothing: such an image is not known to fit."""
    return RequirementError(message, hint=HINT)
