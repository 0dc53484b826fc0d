"""Read runc's command line as far as this runtime needs it, and refuse nothing: what is wrong with it runc says best.

runc takes `--bundle B`, `--bundle=B`, `-bundle B` and the same behind the container id; crun also `-b/B`.
"""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Options that take a value in the next word, of runc 1.3 and crun 1.28.
GLOBAL_VALUES = frozenset(("cgroup-manager", "criu", "log", "log-format", "log-level", "root", "rootless"))
COMMAND_VALUES = frozenset(
    (
        *("b", "bundle", "config", "console-socket", "empty-ns", "f", "image-path", "lsm-mount-context", "lsm-profile"),
        *("manage-cgroups-mode", "parent-path", "pid-file", "preserve-fds", "status-fd", "work-path"),
    )
)

# The commands that read the bundle and start a container from it.
STARTING = frozenset(("create", "restore", "run"))


class Call(Value):
    """One call of the runtime. Options that are not given are ""; `bundle` is then the working directory."""

    command: str
    container_id: str = ""
    bundle: str = "."
    # crun can be told another name; runc cannot.
    config: str = "config.json"
    log: str = ""
    log_format: str = "text"
    root: str = ""
    pid_file: str = ""
    systemd_cgroup: bool = False
    asks_for_help: bool = False
    asks_for_version: bool = False
    # Of a call that starts nothing: the words behind the command of which the first container's name is one.
    names: tuple[str, ...] = ()

    @property
    def starts_container(self) -> bool:
        """Return whether this call reads the bundle, so that what stands in it matters."""
        return self.command in STARTING


def parse(words: Sequence[str]) -> Call:
    """Parse the words behind the program's name."""
    options, position = _global_options(words)
    command = words[position] if position < len(words) else ""
    behind = words[position + 1 :]
    own: dict[str, str] = {}
    operands: list[str] = []
    if command in STARTING:
        own, operands = _command_options(behind)
    return Call(
        command=command,
        # The last, where engines put it: an option of a runtime to come may take a value that looks like an operand.
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
        names=() if command in STARTING else tuple(word for word in behind if _may_be_container(word)),
    )


def _may_be_container(word: str) -> bool:
    return bool(word) and not word.startswith("-") and "/" not in word


def _global_options(words: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the options in front of the command and where the command stands."""
    options: dict[str, str] = {}
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "-":
        name, value, taken = _option(words, position, GLOBAL_VALUES)
        position += taken
        if not name:  # "--" ends the options
            break
        options[name] = value
    return options, position


def _command_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of a command and its operands, in whatever order they stand."""
    options: dict[str, str] = {}
    operands: list[str] = []
    position = 0
    while position < len(words):
        if not words[position].startswith("-") or words[position] == "-":
            operands.append(words[position])
            position += 1
            continue
        name, value, taken = _option(words, position, COMMAND_VALUES)
        position += taken
        if not name:
            return options, [*operands, *words[position:]]
        options[name] = value
    return options, operands


def _option(words: Sequence[str], position: int, with_value: frozenset[str]) -> tuple[str, str, int]:
    """Return an option's name and value and how many words it takes; the name of `--` is ""."""
    word = words[position]
    if word == "--":
        return "", "", 1
    name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    if equals:
        return name or "=", value, 1
    if name in with_value:
        return name, words[position + 1] if position + 1 < len(words) else "", 2
    # crun's -b/bundle; any other word could be a long option behind a single dash.
    if word[:3] in ("-b/", "-b.", "-f/", "-f.") and word[1] in with_value:
        return word[1], word[2:], 1
    return name, "true", 1
