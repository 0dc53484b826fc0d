"""Find amd-container-runtime, and the low-level runtime that it uses."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_device_spec.settings import SettingsError
from amd_device_spec.settings_file import read_settings_file, set_setting
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import writable_by_others
from amdgpu_discovery.host import Host

# The original toolkit's deb package used the second.
USUAL_DIRECTORIES = ("/usr/bin", "/usr/local/bin")
# amd-container-runtime searches these for runc and crun after its PATH; see its runc.py.
LOW_LEVEL_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
PROGRAM_OF_PACKAGES = f"/usr/bin/{RUNTIME_PROGRAM}"
# Both tools keep a program in its own environment, marked by a file, and add other distributions on request.
HINT_BY_MARK = {
    "pipx_metadata.json": "install it with 'pipx inject --include-apps amd-ctk amd-container-runtime'",
    "uv-receipt.toml": "install it with 'uv tool install --with-executables-from amd-container-runtime amd-ctk'",
}
USUAL_HINT = "install it, or name it with --runtime-path=/opt/bin/amd-container-runtime"


def find_low_level_runtime(name: str, directories: Sequence[str]) -> str:
    """Return the path of a low-level runtime, "" if it is in none of these directories."""
    return shutil.which(name, path=":".join(filter(os.path.isabs, directories))) or ""


def find_only_crun(directories: Sequence[str]) -> str:
    """Return the path of crun if these directories have no runc, else ""."""
    return "" if find_low_level_runtime("runc", directories) else find_low_level_runtime("crun", directories)


def usual_runtime() -> str:
    """Return what the AMD runtime calls if the settings name nothing: runc, or crun where there is no runc."""
    directories = _usual_directories()
    return find_low_level_runtime("runc", directories) or find_only_crun(directories) or "runc"


def has_low_level_runtime(name: str) -> bool:
    """Return whether the AMD runtime would find a low-level runtime."""
    return find_low_level_runtime(name, _usual_directories()) != ""


def _usual_directories() -> list[str]:
    return [*os.environ.get("PATH", "").split(":"), *LOW_LEVEL_DIRECTORIES]


def check_low_level_runtime(path: str) -> None:
    """Raise SettingsError if users other than root can replace this program, which engines run as root."""
    if os.path.isabs(path) and os.path.exists(path):
        _require_safe(f"the low-level runtime {path}", path, SettingsError)


def pin(host: Host, path: str) -> bool:
    """Make `path` the low-level runtime unless one is set already; return whether that changed the settings."""
    return not read_settings_file(host).get("low-level-runtime") and set_setting(host, "low-level-runtime", path)


class NoRuntimeProgram(ToolkitError):
    """There is no amd-container-runtime for an engine to call."""


def find_runtime_program(own_path: str, search_path: str, *, usual_hint: str = USUAL_HINT) -> str:
    """Find amd-container-runtime beside `own_path`, beside python, or on a PATH; NoRuntimeProgram.

    The path is absolute, because the engine's PATH may differ from that of the user who configures it.
    """
    beside = [os.path.dirname(os.path.abspath(own_path)), os.path.dirname(os.path.realpath(own_path))]
    # For `python -m amd_ctk` in a virtual environment, where python is beside the programs.
    beside.append(os.path.dirname(sys.executable))
    for directory in [*beside, *search_path.split(":"), *USUAL_DIRECTORIES]:
        candidate = os.path.join(directory, RUNTIME_PROGRAM)
        if os.path.isabs(candidate) and is_program(candidate):
            # An upgrade from AMD's toolkit 1.x leaves a link in /usr/local/bin, which sudo finds first.
            is_of_packages = os.path.realpath(candidate) == os.path.realpath(PROGRAM_OF_PACKAGES)
            return PROGRAM_OF_PACKAGES if is_of_packages else candidate
    raise NoRuntimeProgram(f"{RUNTIME_PROGRAM} is not installed", hint=_how_to_install(sys.prefix) or usual_hint)


def check_runtime_path(path: str, *, must_exist: bool) -> str:
    """Return a path from the user; NoRuntimeProgram if an engine could not call it."""
    if not os.path.isabs(path):
        raise NoRuntimeProgram(
            f"the runtime path {path} is not absolute", hint="give an absolute path; an engine may have another PATH"
        )
    if must_exist and not is_program(path):
        raise NoRuntimeProgram(
            f"the runtime path {path} is not a program", hint="install it first, or the engine cannot start containers"
        )
    if must_exist:
        # Engines run the program as root.
        _require_safe(f"the runtime path {path}", path, NoRuntimeProgram)
    return path


def _require_safe(subject: str, path: str, error: type[ToolkitError]) -> None:
    """Raise an error if users other than root can replace part of a program's path or of its link targets."""
    if replaceable := writable_by_others(path):
        raise error(
            f"{subject} can be replaced by users other than root, who may write to {replaceable}",
            hint=f"make it writable by root only; 'ls -ld {replaceable}' shows its owner and mode",
        )


def is_program(path: str) -> bool:
    """Return whether a path leads to a file that this user may execute."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _how_to_install(prefix: str) -> str:
    marks = [mark for mark in HINT_BY_MARK if os.path.exists(os.path.join(prefix, mark))]
    return HINT_BY_MARK[marks[0]] if marks else ""
