"""Which options of `status` exclude each other: none is left unused in silence."""

from __future__ import annotations

from amd_gpu_tracker.errors import OptionsExcluded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

# JSON is whole in any case, so --wide and --no-trunc change nothing about it.
EXCLUDED_BY_OPTION = {
    "--refusals": ("--usage", "--peak", "--prometheus", "--watch", "--wide", "--no-trunc"),
    "--prometheus": ("--json", "--watch", "--wide", "--no-trunc"),
    "--usage": ("--wide",),
    "--peak": ("--wide",),
    "--watch": ("--no-trunc",),
}


def require_compatible(given: Collection[str]) -> None:
    """Refuse options that exclude each other; OptionsExcluded."""
    for option, excluded in EXCLUDED_BY_OPTION.items():
        for other in excluded:
            if option in given and other in given:
                raise OptionsExcluded(option, other)
