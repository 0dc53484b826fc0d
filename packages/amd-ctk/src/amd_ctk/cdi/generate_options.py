"""How each generated spec was asked for, remembered so that `amd-ctk cdi refresh` can ask again."""

from __future__ import annotations

import os

from amd_ctk.cdi.errors import CdiError
from amd_device_spec.cdi import CdiOptions
from amd_device_spec.cdi_text import FORMATS
from amdgpu_discovery.errors import reason
from amdgpu_discovery.files import make_directories, replace_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

DEFAULT_OUTPUT = "/etc/cdi/amd.json"
# One file each, so that two that are written at once cannot lose one another.
RECIPES = "/var/lib/amd-container-toolkit/cdi"
LONGEST_NAME = 200


class Recipe(Value):
    """A file and what shall be in it."""

    # Absolute, and as it is called on that host.
    output: str
    language: str
    options: CdiOptions

    def path(self, host: Host) -> str:
        """Return where the file is on this machine."""
        return host.path(self.output)


def name_output(host: Host, output: str) -> str:
    """Return the `output` of a recipe for a path that a user gave; "" is the default."""
    return host.given(output) if output else DEFAULT_OUTPUT


def remember(host: Host, recipe: Recipe) -> None:
    """Keep a recipe for the next refresh; FileError."""
    import json

    fields = {**recipe.as_dict(), "options": recipe.options.as_dict()}
    path = host.path(_file_of(recipe.output))
    try:
        make_directories(os.path.dirname(path))
    except OSError as error:
        raise CdiError(f"{os.path.dirname(path)} cannot be made: {reason(error)}") from error
    replace_file(path, (json.dumps(fields, indent=2) + "\n").encode(), durable=True)


def forget(host: Host, output: str) -> bool:
    """Refresh a file no more; return whether it was remembered."""
    try:
        os.unlink(host.path(_file_of(output)))
    except FileNotFoundError:
        return False
    return True


def remembered(host: Host) -> list[Recipe]:
    """Return all recipes by output; CdiError where one cannot be read."""
    names = sorted(name for name in host.names(RECIPES) if name.endswith(".json"))
    return sorted((_read(host, f"{RECIPES}/{name}") for name in names), key=lambda recipe: recipe.output)


def find_recipe(host: Host, output: str) -> Recipe | None:
    """Return how a file was generated, None where that is not known."""
    path = _file_of(output)
    return _read(host, path) if host.stat(path) else None


def _file_of(output: str) -> str:
    from urllib.parse import quote

    name = quote(os.fsencode(output), safe="")
    if len(name) > LONGEST_NAME:
        # A library of its own stands behind it, which takes as long to load as everything else here to do.
        import hashlib

        name = f"{name[:100]}@{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{RECIPES}/{name}.json"


def _read(host: Host, path: str) -> Recipe:
    import json

    try:
        return _recipe(json.loads(host.read(path)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        words = reason(error) if isinstance(error, OSError) else "it is not what amd-ctk writes"
        raise CdiError(
            f"{host.path(path)}, which says how a CDI spec was generated, cannot be read: {words}",
            hint="remove it and run 'amd-ctk cdi generate' again",
        ) from error


def _recipe(fields: dict[str, Any]) -> Recipe:
    if fields["language"] not in FORMATS:
        raise ValueError(fields["language"])
    return Recipe(output=str(fields["output"]), language=fields["language"], options=CdiOptions(**fields["options"]))
