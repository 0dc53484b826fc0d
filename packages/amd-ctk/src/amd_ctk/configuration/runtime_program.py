"""Where amd-container-runtime is installed."""

from __future__ import annotations

import os
import sys

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.low_level import replaceable_part
from amdgpu_discovery.errors import ToolkitError

# The deb package of the original put it into the second.
USUAL_DIRECTORIES = ("/usr/bin", "/usr/local/bin")
# Each keeps a program in an environment of its own, marks it with a file, and adds other distributions on request.
HINT_BY_MARK = {
    "pipx_metadata.json": "install it with 'pipx inject --include-apps amd-ctk amd-container-runtime'",
    "uv-receipt.toml": "install it with 'uv tool install --with-executables-from amd-container-runtime amd-ctk'",
}
USUAL_HINT = "install it, or name it with --runtime-path=/opt/bin/amd-container-runtime"


class NoRuntimeProgram(ToolkitError):
    """There is no amd-container-runtime for an engine to call."""


def find_runtime_program(ourselves: str, search_path: str) -> str:
    """Return the path of amd-container-runtime: beside `ourselves`, beside python, on a PATH; NoRuntimeProgram.

    Return an absolute path: the engine may have another PATH than the user who configures it.
    """
    beside = [os.path.dirname(os.path.abspath(ourselves)), os.path.dirname(os.path.realpath(ourselves))]
    # For `python -m amd_ctk` in a virtual environment, whose python is beside its programs.
    beside.append(os.path.dirname(sys.executable))
    for directory in [*beside, *search_path.split(":"), *USUAL_DIRECTORIES]:
        candidate = os.path.join(directory, RUNTIME_PROGRAM)
        if os.path.isabs(candidate) and _is_program(candidate):
            return candidate
    raise NoRuntimeProgram(f"{RUNTIME_PROGRAM} is not installed", hint=_how_to_install(sys.prefix))


def check_runtime_path(path: str, *, must_exist: bool) -> str:
    """Return a path that the user gave; NoRuntimeProgram where an engine could not call it."""
    if not os.path.isabs(path):
        raise NoRuntimeProgram(
            f"the runtime path {path} is not absolute", hint="give an absolute path; an engine may have another PATH"
        )
    if must_exist and not _is_program(path):
        raise NoRuntimeProgram(
            f"the runtime path {path} is not a program", hint="install it first, or the engine cannot start containers"
        )
    # Engines run it as root.
    if must_exist and (replaceable := replaceable_part(path)):
        raise NoRuntimeProgram(
            f"the runtime path {path} can be replaced by users other than root, who may write to {replaceable}",
            hint=f"make it writable by root only; 'ls -ld {replaceable}' shows its owner and mode",
        )
    return path


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _how_to_install(prefix: str) -> str:
    marks = [mark for mark in HINT_BY_MARK if os.path.exists(os.path.join(prefix, mark))]
    return HINT_BY_MARK[marks[0]] if marks else USUAL_HINT
