"""Which program really makes containers, and becoming it."""

from __future__ import annotations

# The C half of signal, which is there from the start; signal itself brings enum.
import _signal  # type: ignore[import-not-found]  # typeshed describes signal only
import posix

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import exists, is_file, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

# crun only where there is no runc anywhere: one installed later must not strand the other's containers.
NAMES = ("runc", "crun")
# What each keeps below its root in a directory named after the container, from `create` to `delete`.
STATE_FILES = (("runc", "state.json"), ("crun", "status"))
# `podman run --group-add keep-groups`: the container keeps the groups of the user who starts it. Only crun knows it.
KEEP_GROUPS = "run.oci.keep_original_groups"
# What python sets LC_CTYPE to where the locale is C, in its own environment (PEP 538).
COERCED_LOCALES = (b"C.UTF-8", b"C.utf8", b"UTF-8")
# Podman calls `delete` and `kill` without a PATH.
USUAL_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class NoLowLevelRuntime(ToolkitError):
    """There is no low-level runtime to call."""

    exit_code = 7


def find_low_level_runtime(configured: str, search_path: str, *, ourselves: str, maker: str = "") -> str:
    """Return the path of the OCI runtime: the configured one, else runc, else crun; NoLowLevelRuntime.

    `configured` is a path, a name or ""; `search_path` is a PATH; `ourselves` is passed over, wherever it is found.
    Where a container needs the other of runc and crun, its `maker`, that one comes first.
    """
    # A relative directory of PATH would mean the bundle's, which is not a place for programs.
    directories = [*(part for part in search_path.split(":") if part.startswith("/")), *USUAL_DIRECTORIES]
    names = (configured,) if configured else NAMES
    # A program of another name may be anything, crun in a wrapper too.
    if maker and configured.rpartition("/")[2] in {"", *NAMES} - {maker}:
        names = (maker, *names)
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


def maker_of(names: Sequence[str], root: str, environment: Mapping[str, str]) -> str:
    """Return which of runc and crun made the container that the first of `names` to be one names, "" for none or both.

    Both keep a directory for each container, crun with another file in it; `root` is the --root of the call.
    """
    user = environment.get("XDG_RUNTIME_DIR") or "/run"
    for name in names:
        makers = {
            maker
            for maker, file in STATE_FILES
            for directory in ((root,) if root else (f"/run/{maker}", f"{user}/{maker}"))
            if exists(f"{directory}/{name}/{file}")
        }
        if makers:
            return makers.pop() if len(makers) == 1 else ""
    return ""


def maker_for(spec: dict[str, Any]) -> str:
    """Return which of runc and crun a container needs, "" where either will do."""
    return "crun" if (spec.get("annotations") or {}).get(KEEP_GROUPS) == "1" else ""


def hand_over(program: str, words: Sequence[str], environment: Mapping[bytes, bytes]) -> NoReturn:
    """Become the low-level runtime: same process, descriptors, signals and, in the end, its exit code."""
    # Python ignores these two, and what is ignored stays so in every program that comes after.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        posix.execve(program, [program, *words], _as_given(environment))
    except OSError as error:
        raise NoLowLevelRuntime(f"the low-level runtime {program} cannot be run: {reason(error)}") from error


def _as_given(environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """Return the environment without what python itself has put into it."""
    if environment.get(b"LC_CTYPE") not in COERCED_LOCALES:
        return environment
    try:
        entries = read_file("/proc/self/environ").split(b"\0")
    except OSError:  # no /proc, no way to know
        return environment
    given = next((entry for entry in entries if entry.startswith(b"LC_CTYPE=")), None)
    others = {name: value for name, value in environment.items() if name != b"LC_CTYPE"}
    return others if given is None else {**others, b"LC_CTYPE": given.partition(b"=")[2]}


def _is_program(path: str) -> bool:
    return posix.access(path, posix.X_OK) and is_file(path)


def _is_same_file(path: str, other: str) -> bool:
    try:
        one, two = posix.stat(path), posix.stat(other)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
