"""Bring every generated spec up to date."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_ctk.cdi.engine_devices import SPEC_DIRECTORIES
from amd_ctk.cdi.errors import CdiError
from amd_ctk.cdi.generate_options import (
    DEFAULT_OUTPUT,
    GenerateOptions,
    delete_generate_options,
    find_generate_options,
    read_all_generate_options,
)
from amd_ctk.cdi.specs import write_spec
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import remove_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# Directories that are empty after a boot, or private to a unit (PrivateTmp): a missing directory there means nothing.
VOLATILE = ("/run/", "/var/run/", "/tmp/", "/var/tmp/")  # noqa: S108  nothing is written there


class Refreshed(Value):
    """The result for one spec."""

    output: str
    changed: bool = False
    # Its directory is gone, so it is not refreshed any more.
    forgotten: bool = False
    # Why it could not be updated.
    error: ToolkitError | None = None


def refresh_specs(host: Host) -> list[Refreshed]:
    """Generate again what `amd-ctk cdi generate` generated, writing only what differs; [] where it never ran.

    A spec that cannot be refreshed does not stop the others. ToolkitError where the list of specs cannot be read.
    """
    return [_refresh(host, wanted) for wanted in read_all_generate_options(host)]


def find_generated(host: Host) -> list[str]:
    """Return the generated specs that engines read; a spec elsewhere belongs to the user who generated it."""
    outputs = [wanted.output for wanted in read_all_generate_options(host)]
    return [output for output in outputs if os.path.dirname(output) in (*SPEC_DIRECTORIES, "/var/run/cdi")]


def remove_spec(host: Host, output: str) -> bool:
    """Remove a generated spec and stop refreshing it; return False for a file not generated here. CdiError."""
    wanted = find_generate_options(host, output)
    if wanted is None:
        return False
    try:
        with suppress(FileNotFoundError):
            remove_file(wanted.path(host))
        return delete_generate_options(host, output)
    except OSError as error:
        raise CdiError(f"{output} cannot be removed: {reason(error)}") from error


def _refresh(host: Host, wanted: GenerateOptions) -> Refreshed:
    if _is_abandoned(host, wanted):
        delete_generate_options(host, wanted.output)
        return Refreshed(output=wanted.output, forgotten=True)
    try:
        _, changed = write_spec(host, wanted)
    except ToolkitError as error:
        return Refreshed(output=wanted.output, error=error)
    return Refreshed(output=wanted.output, changed=changed)


def _is_abandoned(host: Host, wanted: GenerateOptions) -> bool:
    if wanted.output == DEFAULT_OUTPUT or wanted.output.startswith(VOLATILE):
        return False
    return not os.path.isdir(os.path.dirname(wanted.path(host)))
