"""Which program really makes containers, and becoming it."""

from __future__ import annotations

# The C half of signal, which is there from the start; signal itself brings enum.
import _signal  # type: ignore[import-not-found]  # typeshed describes signal only
import os

from amdgpu_discovery.errors import ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# crun only where there is no runc anywhere: one installed later must not strand the other's containers.
NAMES = ("runc", "crun")
# Podman calls `delete` and `kill` without a PATH.
# What python sets LC_CTYPE to where the locale is C, in its own environment (PEP 538).
COERCED_LOCALES = ("C.UTF-8", "C.utf8", "UTF-8")
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
    # Python ignores these two, and what is ignored stays so in every program that comes after.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        os.execve(program, [program, *words], _as_given(environment))
    except OSError as error:
        raise NoLowLevelRuntime(f"the low-level runtime {program} cannot be run: {reason(error)}") from error


def _as_given(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment without what python itself has put into it."""
    if environment.get("LC_CTYPE") not in COERCED_LOCALES:
        return environment
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            given = next((entry for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")), None)
    except OSError:  # no /proc, no way to know
        return environment
    others = {name: value for name, value in environment.items() if name != "LC_CTYPE"}
    return others if given is None else {**others, "LC_CTYPE": os.fsdecode(given.partition(b"=")[2])}


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
