"""Where amd-container-runtime is installed."""

from __future__ import annotations

import os

from amd_ctk.engines.engine import RUNTIME_PROGRAM
from amdgpu_discovery.errors import ToolkitError

# The deb package of the original put it into the second.
USUAL_DIRECTORIES = ("/usr/bin", "/usr/local/bin")


class NoRuntimeProgram(ToolkitError):
    """There is no amd-container-runtime for an engine to call."""


def find_runtime_program(ourselves: str, search_path: str) -> str:
    """Return the absolute path of amd-container-runtime: beside `ourselves`, else on a PATH; NoRuntimeProgram.

    An engine may have another PATH than whoever configures it, so a name would not do.
    """
    beside = [os.path.dirname(os.path.abspath(ourselves)), os.path.dirname(os.path.realpath(ourselves))]
    for directory in [*beside, *search_path.split(":"), *USUAL_DIRECTORIES]:
        candidate = os.path.join(directory, RUNTIME_PROGRAM)
        if os.path.isabs(candidate) and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise NoRuntimeProgram(
        f"{RUNTIME_PROGRAM} is not installed",
        hint="say where it will be with --runtime-path=/usr/bin/amd-container-runtime",
    )


def check_runtime_path(path: str) -> str:
    """Return a path that the user gave; NoRuntimeProgram where an engine could not use it."""
    if not os.path.isabs(path):
        raise NoRuntimeProgram(
            f"the runtime path {path} is not absolute", hint="engines look for programs in places of their own"
        )
    return path
