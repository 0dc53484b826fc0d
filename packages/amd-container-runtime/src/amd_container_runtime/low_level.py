"""Which program really makes containers, and becoming it."""

from __future__ import annotations

import os

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# crun only where there is no runc anywhere: one installed later must not strand the other's containers.
NAMES = ("runc", "crun")
# Podman calls `delete` and `kill` without a PATH.
USUAL_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class NoLowLevelRuntime(ToolkitError):
    """There is no runtime to hand over to."""

    exit_code = 7


def find_low_level_runtime(configured: str, search_path: str, *, ourselves: str) -> str:
    """Return the path of the OCI runtime: the configured one, else runc, else crun; NoLowLevelRuntime.

    `configured` is a path, a name or ""; `search_path` is a PATH; `ourselves` is passed over, wherever it is found.
    """
    # A relative directory of PATH would mean the bundle's, which is not a place for programs.
    directories = [*(part for part in search_path.split(":") if part.startswith("/")), *USUAL_DIRECTORIES]
    names = (configured,) if configured else NAMES
    for name in names:
        for candidate in [name] if "/" in name else [f"{directory}/{name}" for directory in directories]:
            if _is_program(candidate) and not _is_same_file(candidate, ourselves):
                return candidate
    if configured:
        raise NoLowLevelRuntime(
            f"the low-level runtime {configured} cannot be run: it is missing, not executable or this program itself",
            hint="correct it with 'amd-ctk config set low-level-runtime /usr/bin/runc'",
        )
    raise NoLowLevelRuntime(
        "there is no runc and no crun to hand the container to", hint="install runc with 'apt install runc'"
    )


def hand_over(program: str, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become the low-level runtime: same process, descriptors, signals and, in the end, its exit code."""
    try:
        os.execve(program, [program, *words], environment)
    except OSError as error:
        raise NoLowLevelRuntime(f"the low-level runtime {program} cannot be run: {error.strerror}") from error


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
