"""Bring every generated spec up to date."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_ctk.cdi.errors import CdiError
from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT, find_recipe, forget, remembered
from amd_ctk.cdi.offers import SPEC_DIRECTORIES
from amd_ctk.cdi.specs import write_spec
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.cdi.generate_options import Recipe
    from amdgpu_discovery.host import Host

# Directories that are empty after a boot, or that a unit has of its own (PrivateTmp), so that one that is missing means
# nothing.
VOLATILE = ("/run/", "/var/run/", "/tmp/", "/var/tmp/")  # noqa: S108  nothing is written there


class Refreshed(Value):
    """What became of one spec."""

    output: str
    changed: bool = False
    # Its directory is gone, and nobody wants it any more.
    forgotten: bool = False
    # Why it is as it was although it should not be.
    error: ToolkitError | None = None


def refresh_specs(host: Host) -> list[Refreshed]:
    """Generate anew what `amd-ctk cdi generate` generated, writing only what differs; [] where it never ran.

    One spec that cannot be refreshed does not keep the others from it. ToolkitError where it cannot be known which
    specs there are.
    """
    return [_refresh(host, recipe) for recipe in remembered(host)]


def find_generated(host: Host) -> list[str]:
    """Return which generated specs are where engines look; elsewhere they are whoever's who generated them."""
    outputs = [recipe.output for recipe in remembered(host)]
    return [output for output in outputs if os.path.dirname(output) in (*SPEC_DIRECTORIES, "/var/run/cdi")]


def remove_spec(host: Host, output: str) -> bool:
    """Remove a generated spec and refresh it no more; return whether it was ours. CdiError where it cannot be."""
    recipe = find_recipe(host, output)
    if recipe is None:
        return False
    try:
        with suppress(FileNotFoundError):
            os.unlink(recipe.path(host))
        return forget(host, output)
    except OSError as error:
        raise CdiError(f"{output} cannot be removed: {reason(error)}") from error


def _refresh(host: Host, recipe: Recipe) -> Refreshed:
    if _is_unwanted(host, recipe):
        forget(host, recipe.output)
        return Refreshed(output=recipe.output, forgotten=True)
    try:
        _, changed = write_spec(host, recipe)
    except ToolkitError as error:
        return Refreshed(output=recipe.output, error=error)
    return Refreshed(output=recipe.output, changed=changed)


def _is_unwanted(host: Host, recipe: Recipe) -> bool:
    if recipe.output == DEFAULT_OUTPUT or recipe.output.startswith(VOLATILE):
        return False
    return not os.path.isdir(os.path.dirname(recipe.path(host)))
