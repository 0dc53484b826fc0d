"""Find `run` in a command line: behind `sudo` or `env X=1`, and behind an engine's own options."""

from __future__ import annotations

import os
from itertools import pairwise

from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DOCKER = "docker"
PODMAN = "podman"
# Of Podman: keeps the groups of the caller.
KEEP_GROUPS = "keep-groups"
ENGINES = (DOCKER, PODMAN)
COMMANDS = ("run", "create")
# The most digits of a user or group id.
MOST_ID_DIGITS = 10
DOCKER_VALUES = (
    *("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey"),
)
# Options of Docker 20 to 28, Podman 4 to 5 and nerdctl that take the next argument as their value. `-c` is Docker's
# context and Podman's connection.
ENGINE_VALUES = frozenset(
    (
        *DOCKER_VALUES,
        *("--cgroup-manager", "--conmon", "--connection", "--events-backend", "--hooks-dir", "--identity"),
        *("--imagestore", "--module", "--network-cmd-path", "--network-config-dir", "--out", "--root", "--runroot"),
        *("--runtime", "--runtime-flag", "--ssh", "--storage-driver", "--storage-opt", "--tmpdir", "--url"),
        *("--tls-ca", "--tls-cert", "--tls-key", "--max-workers", "--cpu-profile", "--memory-profile"),
        "--registries-conf",
        *("--volumepath", "--cdi-spec-dir", "--default-mounts-file", "--namespace", "-n", "--address"),
    )
)

FLAGS = ("--help", "-h", "--version", "-v")
# Options of nerdctl or Docker only.
NOT_IN_PODMAN = frozenset(
    ("-H", "--host", "-n", "--address", "-l", "--context", "--tlscacert", "--tlscert", "--tlskey")
)
BY_ENGINE = {
    DOCKER: frozenset((*FLAGS, *DOCKER_VALUES, "-D", "--debug", "--tls", "--tlsverify")),
    PODMAN: frozenset(
        (
            *(ENGINE_VALUES - NOT_IN_PODMAN),
            *FLAGS,
            *("-r", "--remote", "--noout", "--syslog", "--transient-store", "--trace", "--debug"),
        )
    ),
}
# The script of podman-docker ends with this. It is no regular expression, because 'amd-ctk run' does not load re.
PODMAN_DOCKER_SCRIPT = b'podman "$@"'
LARGEST_SCRIPT = 16 * 1024
# How a script writes its arguments.
PASSED = ("$@", "$*", "${@", "${*")
# What changes a script's arguments, or the engine that it calls.
CHANGING = ("set", "shift", "DOCKER_HOST=", "DOCKER_CONTEXT=", "CONTAINER_HOST=")
SUDO = "sudo"
KEEPS = ("-E", "--preserve-env")
# Keeps the variables of a list.
KEEPS_LIST = "--preserve-env="
# Options of sudo without a value. Those that start a shell or change the directory are missing: a command with them is
# not parsed.
SUDO_FLAGS = (*KEEPS, "-H", "--set-home", "-n", "--non-interactive")
# Options of sudo that take the next argument as their value.
WITH_VALUE = ("-u", "--user", "-g", "--group")
# Options of env that drop all variables, and those that drop the one that follows.
CLEARS = ("-i", "-", "--ignore-environment")
UNSETS = ("-u", "--unset")
UNSETS_JOINED = "--unset="
# Programs that only start another one, with their options that take the next argument as their value.
LAUNCHERS: dict[str, tuple[str, ...]] = {
    "chrt": ("-T", "--sched-runtime", "-P", "--sched-period", "-D", "--sched-deadline"),
    "flock": ("-w", "--timeout", "--wait", "-E", "--conflict-exit-code"),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "--class", "-n", "--classdata"),
    "nohup": (),
    "numactl": ("-i", "--interleave", "-m", "--membind", "-N", "--cpunodebind", "-C", "--physcpubind", "-p"),
    "prlimit": (),
    "setsid": (),
    "stdbuf": ("-i", "--input", "-o", "--output", "-e", "--error"),
    "strace": ("-e", "-o", "-s", "-p", "-u"),
    "taskset": (),
    "time": ("-f", "--format", "-o", "--output"),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
}
# They have a duration, a mask, a priority or a file in front of the command.
WITH_OPERAND = ("chrt", "flock", "taskset", "timeout")
PREFIXES = (SUDO, "env", *LAUNCHERS)


def engine_of(program: str) -> str:
    """Return the engine that a command calls. The `docker` of the package podman-docker is Podman."""
    name = os.path.basename(program)
    return PODMAN if name == DOCKER and _is_podman(program) else name


def _is_podman(command: str) -> bool:
    """Return whether a command is a link to Podman, or a script that calls it."""
    path, script = _read_script(command)
    return os.path.basename(path) == PODMAN or PODMAN_DOCKER_SCRIPT in script


def find_wrapper(command: str) -> str:
    """Return the path of a script in front of an engine that may change its arguments, "" if there is none."""
    path, script = _read_script(command)
    lines = [line.split() for line in script.decode(errors="replace").splitlines() if not line.lstrip().startswith("#")]
    calls = [words for words in lines if _passes_on(words)]
    # The script of podman-docker, for one, changes nothing.
    is_plain = all(_is_plain(word) for words in calls for word in words)
    changes = any(word.startswith(CHANGING) for words in lines for word in words)
    return path if calls and (changes or not is_plain) else ""


def _passes_on(words: Sequence[str]) -> bool:
    """Return whether a line of a script calls an engine with arguments of the script."""
    engines = [position for position, word in enumerate(words) if any(name in word.lower() for name in ENGINES)]
    return bool(engines) and any(mark in word for word in words[engines[0] + 1 :] for mark in PASSED)


def _is_plain(word: str) -> bool:
    return os.path.basename(word) in ("exec", SUDO, *ENGINES) or word.strip('"') in PASSED


def _read_script(command: str) -> tuple[str, bytes]:
    """Return where a command is, and what it says if it is a script; both are empty if that is unknown."""
    # Imported here because most commands call no engine.
    from shutil import which

    program = which(command)
    if program is None:
        return "", b""
    path = os.path.realpath(program)
    try:
        content = read_plain_file(path, largest=LARGEST_SCRIPT)[0]
    except OSError:
        # An engine is larger, or PATH names a directory below one that was removed.
        return path, b""
    return path, content if content.startswith(b"#!") else b""


def takes_next_arg(arg: str) -> bool:
    """Return whether an option takes the next argument as its value. It may end joined letters, as in -Dl."""
    return arg in ENGINE_VALUES or (len(arg) > 2 and arg[1] != "-" and "=" not in arg and _ends_open(arg[1:]))


def unknown_option(engine: str, arg: str) -> str:
    """Return why an engine does not know an option in front of its command; "" if it knows the option."""
    known = BY_ENGINE.get(engine)
    if known is None or arg == "--" or arg.partition("=")[0] in known:
        return ""
    if arg.startswith("--"):
        return f"unknown flag: {arg.partition('=')[0]}"
    return "" if f"-{arg[1:2]}" in known else f"unknown shorthand flag: {arg[1:2]!r} in {arg}"


def _ends_open(letters: str) -> bool:
    """Return whether only the last of joined letters takes a value."""
    return f"-{letters[-1]}" in ENGINE_VALUES and all(f"-{letter}" not in ENGINE_VALUES for letter in letters[:-1])


def own_options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options in front of an engine's command with their values ("" for none). Joined letters are split."""
    position = 0
    while position < len(args):
        arg = args[position]
        following = " ".join(args[position + 1 : position + 2])
        if arg.startswith("--"):
            name, equals, value = arg.partition("=")
            yield name, value if equals or not takes_next_arg(arg) else following
        elif arg.startswith("-"):
            yield from _own_letters(arg[1:], following)
        position += 2 if takes_next_arg(arg) else 1


def _own_letters(letters: str, following: str) -> Iterator[tuple[str, str]]:
    for end, letter in enumerate(letters, 1):
        value = letters[end:]
        if value.startswith("=") or f"-{letter}" in ENGINE_VALUES:
            yield f"-{letter}", value[1:] if value.startswith("=") else value or following
            return
        yield f"-{letter}", ""


def own_values(args: Sequence[str], option: str) -> list[str]:
    """Return the values of an option in front of an engine's command."""
    return [value for name, value in own_options(args) if name == option]


def without_group(options: Sequence[str]) -> Sequence[str]:
    """Return an engine's own options without the `container` of `docker container run`, unless it is a value."""
    is_group = options[-1:] == ["container"] and not ENGINE_VALUES.intersection(options[-2:-1])
    return options[:-1] if is_group else options


def keep_through_sudo(argv: Sequence[str], variables: Sequence[str]) -> list[str]:
    """Return a command line whose `sudo` passes these variables on to an engine's `run`.

    They are named, because sudo-rs ignores -E.
    """
    command = without_prefixes(argv)
    if command.passes(variables) or find_run(command.argv) is None:
        return list(argv)
    prefix = argv[: len(argv) - len(command.argv)]
    option = f"{KEEPS_LIST}{','.join(variables)}"
    words = [[word, option] if os.path.basename(word) == SUDO else [word] for word in prefix]
    return [*(word for pair in words for word in pair), *command.argv]


def find_engine(argv: Sequence[str]) -> int:
    """Return the index of the command behind `env X=1` or `sudo -E`; 0 also if a prefix drops the environment."""
    if os.path.basename(argv[0]) not in PREFIXES:
        return 0
    command = without_prefixes(argv)
    return 0 if command.kept == () else len(argv) - len(command.argv)


def find_run(argv: Sequence[str]) -> int | None:
    """Return the index of `run` or `create` in an engine's command line; None if this is no such command."""
    start = find_engine(argv)
    if os.path.basename(argv[start]) not in ENGINES:
        return None
    _, position = options_before_run(argv[start + 1 :])
    return None if position is None else start + 1 + position


def options_before_run(args: Sequence[str]) -> tuple[list[str], int | None]:
    """Return the options behind an engine's name and the index of `run` or `create`, None if there is neither."""
    options: list[str] = []
    position = 0
    while position < len(args) and args[position] not in COMMANDS:
        arg = args[position]
        if arg.startswith("-"):
            options.append(arg)
            position += 2 if takes_next_arg(arg) else 1
        elif arg == "container":
            position += 1
        else:
            return options, None
    return options, position if position < len(args) else None


class Prefixed(Value):
    """A command without its prefixes such as sudo, and what these do to the caller's environment."""

    argv: tuple[str, ...] = ()
    variables: dict[str, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed
    # The names of the caller's variables that stay; None for all.
    kept: tuple[str, ...] | None = None
    # Those that env drops by name.
    unset: tuple[str, ...] = ()
    is_sudo: bool = False

    def passes(self, variables: Sequence[str]) -> bool:
        """Return whether the command has these variables of its caller."""
        return not set(variables) & set(self.unset) and (self.kept is None or set(variables) <= set(self.kept))


def without_prefixes(argv: Sequence[str]) -> Prefixed:
    """Return a command without the `sudo` and `env` in front of it. Prefixes that cannot be parsed stay."""
    found = Prefixed(argv=tuple(argv))
    while found.argv and os.path.basename(found.argv[0]) in PREFIXES:
        behind = _strip_prefix(found)
        if behind is None:
            break
        found = behind
    return found


def environment_of(command: Prefixed, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command, given its caller's. sudo keeps only what it is told to keep."""
    passed = {name: value for name, value in environment.items() if command.passes((name,))}
    return {**passed, **command.variables}


def _strip_prefix(found: Prefixed) -> Prefixed | None:
    if os.path.basename(found.argv[0]) in LAUNCHERS:
        behind = _behind_launcher(found.argv)
        return found.replace(argv=behind) if behind and not behind[0].startswith("-") else None
    is_sudo = os.path.basename(found.argv[0]) == SUDO
    start = _end_of_options(found.argv) if is_sudo else _end_of_env_options(found.argv)
    end = start
    while end < len(found.argv) and is_assignment(found.argv[end]):
        end += 1
    if end >= len(found.argv) or found.argv[end].startswith("-"):
        return None
    options = found.argv[1:start]
    listed = _kept_by(options) if is_sudo else _kept_by_env(options)
    unset = () if is_sudo else _unset_by(options)
    stay = {} if listed is not None else {name: found.variables[name] for name in found.variables if name not in unset}
    assigned = (arg.partition("=") for arg in found.argv[start:end])
    return Prefixed(
        argv=found.argv[end:],
        variables={**stay, **{name: value for name, _, value in assigned}},
        kept=_both(found.kept, listed),
        unset=(*found.unset, *unset),
        is_sudo=found.is_sudo or is_sudo,
    )


def _behind_launcher(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that a program of LAUNCHERS starts."""
    name = os.path.basename(argv[0])
    position = 1
    while position < len(argv) and argv[position].startswith("-") and argv[position] != "--":
        position += 2 if argv[position] in LAUNCHERS[name] else 1
    position += argv[position : position + 1] == ("--",)
    return tuple(argv[position + (name in WITH_OPERAND) :])


def _kept_by(options: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the variables that sudo keeps with these options, None for all."""
    if any(arg in KEEPS for arg in options):
        return None
    lists = [arg.removeprefix(KEEPS_LIST).split(",") for arg in options if _is_list(arg)]
    return tuple(name for names in lists for name in names)


def _kept_by_env(options: Sequence[str]) -> tuple[str, ...] | None:
    return () if any(arg in CLEARS for arg in options) else None


def _unset_by(options: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the variables that env drops with these options."""
    named = [name for option, name in pairwise(options) if option in UNSETS]
    return (*named, *(arg.removeprefix(UNSETS_JOINED) for arg in options if arg.startswith(UNSETS_JOINED)))


def _both(kept: tuple[str, ...] | None, listed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if kept is None or listed is None:
        return listed if kept is None else kept
    return tuple(name for name in kept if name in listed)


def _end_of_options(argv: Sequence[str]) -> int:
    position = 1
    while position < len(argv) and (argv[position] in (*SUDO_FLAGS, *WITH_VALUE) or _is_list(argv[position])):
        position += 2 if argv[position] in WITH_VALUE else 1
    return position + 1 if argv[position : position + 1] == ("--",) else position


def _end_of_env_options(argv: Sequence[str]) -> int:
    position = 1
    while position < len(argv) and (argv[position] in (*CLEARS, *UNSETS) or argv[position].startswith(UNSETS_JOINED)):
        position += 2 if argv[position] in UNSETS else 1
    return position


def _is_list(arg: str) -> bool:
    return arg.startswith(KEEPS_LIST)


def is_assignment(arg: str) -> bool:
    """Return whether a word in front of a command sets a variable."""
    name, equals, _ = arg.partition("=")
    return bool(equals) and name.isidentifier()


def read_id(word: str) -> int | None:
    """Return the number of a user or group as engines read it (strconv.Atoi of Go); None for a name."""
    digits = word[1:] if word.startswith(("+", "-")) else word
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MOST_ID_DIGITS
    return int(word) if is_number else None


def number_of_id(word: str) -> int | None:
    """Return the number of a user or group, None for a name that only the image knows."""
    if word in ("", "root"):
        return 0
    return read_id(word)
