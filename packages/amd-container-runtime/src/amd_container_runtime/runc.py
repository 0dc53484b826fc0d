"""runc and crun: parses their command line, chooses one of them, and executes it.

The command line is read as far as this runtime needs it, and nothing is refused: runc reports invalid command lines.
runc takes `--bundle B`, `--bundle=B`, `-bundle B` and the same after the container id; crun also `-b/B`.
"""

from __future__ import annotations

# The built-in C half of signal; signal itself imports enum.
import _signal  # type: ignore[import-not-found]  # typeshed describes signal only
import posix

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import exists, is_file, read_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

# Options of runc 1.3 and crun 1.28 whose value is the next argument.
GLOBAL_VALUES = frozenset(("cgroup-manager", "criu", "log", "log-format", "log-level", "root", "rootless"))
COMMAND_VALUES = frozenset(
    (
        *("b", "bundle", "config", "console-socket", "empty-ns", "f", "image-path", "lsm-mount-context", "lsm-profile"),
        *("manage-cgroups-mode", "parent-path", "pid-file", "preserve-fds", "status-fd", "work-path"),
    )
)

# The commands that read the bundle and start a container from it.
STARTING = frozenset(("create", "restore", "run"))

# crun only if there is no runc anywhere: a program that is installed later must not strand the other's containers.
NAMES = ("runc", "crun")
# The file that each keeps below its root in a directory named after the container, from `create` to `delete`.
STATE_FILES = (("runc", "state.json"), ("crun", "status"))
# Values of LC_CTYPE that Python puts into its own environment if the locale is C (PEP 538).
COERCED_LOCALES = (b"C.UTF-8", b"C.utf8", b"UTF-8")
# Podman calls `delete` and `kill` without a PATH.
USUAL_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Call(Value):
    """One call of the runtime. Options that are not given are ""; `bundle` is then the working directory."""

    command: str
    container_id: str = ""
    bundle: str = "."
    # crun accepts another name; runc does not.
    config: str = "config.json"
    log: str = ""
    log_format: str = "text"
    root: str = ""
    pid_file: str = ""
    systemd_cgroup: bool = False
    asks_for_help: bool = False
    asks_for_version: bool = False
    # If the call starts nothing: the arguments after the command that may be the container's name.
    names: tuple[str, ...] = ()

    @property
    def starts_container(self) -> bool:
        """Return whether this call reads the bundle, so that its content matters."""
        return self.command in STARTING


class NoLowLevelRuntime(ToolkitError):
    """There is no low-level runtime to call."""

    exit_code = 7


def parse_call(args: Sequence[str]) -> Call:
    """Parse the arguments after the program's name."""
    options, position = _global_options(args)
    command = args[position] if position < len(args) else ""
    behind = args[position + 1 :]
    own: dict[str, str] = {}
    operands: list[str] = []
    if command in STARTING:
        own, operands = _command_options(behind)
    return Call(
        command=command,
        # Engines put it last. An option of a future runtime may take a value that looks like an operand.
        container_id=operands[-1] if operands else "",
        bundle=own.get("bundle") or own.get("b") or ".",
        config=own.get("config") or own.get("f") or "config.json",
        log=options.get("log", ""),
        log_format=options.get("log-format", "text"),
        root=options.get("root", ""),
        pid_file=own.get("pid-file", ""),
        systemd_cgroup=options.get("systemd-cgroup", "false") != "false",
        asks_for_help=not {"help", "h"}.isdisjoint({*options, *own}),
        asks_for_version=not command and not {"version", "v"}.isdisjoint(options),
        names=() if command in STARTING else tuple(arg for arg in behind if _may_be_container(arg)),
    )


def find_low_level_runtime(configured: str, search_path: str, *, own_path: str, maker: str = "") -> str:
    """Return the path of the OCI runtime: the configured one, else runc, else crun. Raises NoLowLevelRuntime.

    `configured` is a path, a name or ""; `search_path` is a PATH. `own_path` is skipped, wherever it is found. If a
    container needs a particular one of runc and crun, its `maker`, that one comes first.
    """
    # A relative directory in PATH would be relative to the bundle, which is not a place for programs.
    directories = [*(part for part in search_path.split(":") if part.startswith("/")), *USUAL_DIRECTORIES]
    names = (configured,) if configured else NAMES
    # A program with another name may be anything, even a wrapper around crun.
    if maker and configured.rpartition("/")[2] in {"", *NAMES} - {maker}:
        names = (maker, *names)
    for name in names:
        for candidate in [name] if "/" in name else [f"{directory}/{name}" for directory in directories]:
            if _is_program(candidate) and not _is_same_file(candidate, own_path):
                return candidate
    if configured:
        raise NoLowLevelRuntime(
            f"the low-level runtime {configured} cannot be run: it is missing, not executable or this program itself",
            hint="correct it with 'sudo amd-ctk config set low-level-runtime /usr/bin/runc'",
        )
    raise NoLowLevelRuntime(
        "neither runc nor crun is installed, so the container cannot start",
        hint="install runc or crun",
    )


def maker_of(names: Sequence[str], root: str, environment: Mapping[str, str]) -> str:
    """Return which of runc and crun made a container, "" if neither or both did; the first container in `names` counts.

    Both keep a directory for each container, with different files in it. `root` is the --root of the call.
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


def hand_over(program: str, args: Sequence[str], environment: Mapping[bytes, bytes]) -> NoReturn:
    """Become the low-level runtime: same process, descriptors and signals and, in the end, its exit code."""
    # Python ignores these two, and an executed program inherits ignored signals.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        posix.execve(program, [program, *args], _as_given(environment))
    except OSError as error:
        raise NoLowLevelRuntime(f"the low-level runtime {program} cannot be run: {reason(error)}") from error


def _may_be_container(arg: str) -> bool:
    return bool(arg) and not arg.startswith("-") and "/" not in arg


def _global_options(args: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the options before the command, and the position of the command."""
    options: dict[str, str] = {}
    position = 0
    while position < len(args) and args[position].startswith("-") and args[position] != "-":
        name, value, taken = _option(args, position, GLOBAL_VALUES)
        position += taken
        if not name:  # "--" ends the options
            break
        options[name] = value
    return options, position


def _command_options(args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of a command and its operands, in any order."""
    options: dict[str, str] = {}
    operands: list[str] = []
    position = 0
    while position < len(args):
        if not args[position].startswith("-") or args[position] == "-":
            operands.append(args[position])
            position += 1
            continue
        name, value, taken = _option(args, position, COMMAND_VALUES)
        position += taken
        if not name:
            return options, [*operands, *args[position:]]
        options[name] = value
    return options, operands


def _option(args: Sequence[str], position: int, with_value: frozenset[str]) -> tuple[str, str, int]:
    """Return an option's name and value and how many arguments it takes; the name of `--` is ""."""
    arg = args[position]
    if arg == "--":
        return "", "", 1
    name, equals, value = arg.removeprefix("-").removeprefix("-").partition("=")
    if equals:
        return name or "=", value, 1
    if name in with_value:
        return name, args[position + 1] if position + 1 < len(args) else "", 2
    # crun's -b/bundle. Any other argument could be a long option after a single dash.
    if arg[:3] in ("-b/", "-b.", "-f/", "-f.") and arg[1] in with_value:
        return arg[1], arg[2:], 1
    return name, "true", 1


def _is_program(path: str) -> bool:
    return posix.access(path, posix.X_OK) and is_file(path)


def _is_same_file(path: str, other: str) -> bool:
    try:
        one, two = posix.stat(path), posix.stat(other)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def _as_given(environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """Return the environment without the changes that Python itself made."""
    if environment.get(b"LC_CTYPE") not in COERCED_LOCALES:
        return environment
    try:
        entries = read_file("/proc/self/environ").split(b"\0")
    except OSError:  # no /proc, no way to know
        return environment
    given = next((entry for entry in entries if entry.startswith(b"LC_CTYPE=")), None)
    others = {name: value for name, value in environment.items() if name != b"LC_CTYPE"}
    return others if given is None else {**others, b"LC_CTYPE": given.partition(b"=")[2]}
