"""Read a daemon's command line from the files of its systemd unit, and find directives that it already sets."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping

from amd_ctk.configuration.engine import Engine
from amdgpu_discovery.command_line.document import ABSENT, Document
from amdgpu_discovery.command_line.edited import ConfigFile
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# Of files with the same name, the one in the earlier directory counts.
DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# systemd.unit(5), for units of the system.
SPECIFIER = re.compile(r"%([nNpiEtSCLhu%])")
DIRECTORIES_OF_SYSTEM = {"E": "/etc", "t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "h": "/root"}
SHELLS = ("sh", "bash", "dash")


class CommandLine(Value):
    """The command line of a unit."""

    # The name of the unit, "" if the host has none.
    unit: str = ""
    argv: tuple[str, ...] = ()

    def values_of(self, option: str) -> list[str]:
        """Return the values of an option, given as `--option=value` or `--option value`."""
        values = [word.removeprefix(f"{option}=") for word in self.argv if word.startswith(f"{option}=")]
        pairs = zip(self.argv, self.argv[1:], strict=False)
        return values + [value for word, value in pairs if word == option]

    def has_flag(self, option: str) -> bool:
        """Return whether an option without a value is given; `=true` counts, `=false` does not."""
        return option in self.argv or f"{option}=true" in self.argv


def read_command_line(host: Host, unit: str) -> CommandLine:
    """Return the command line of a host's unit, an empty one if the host has no such unit."""
    texts = list(_read_unit(host, unit))
    lines = [line for text in texts for line in _service_lines(text)]
    if not lines:
        return CommandLine()
    environment = _read_environment(host, lines)
    commands = _last_after_reset(lines, "ExecStart")
    argv = [word for command in commands for word in _split(_specified(command.lstrip("@-:+!"), unit))]
    expanded = [each for word in argv for each in _expand(word, environment)]
    return CommandLine(unit=unit, argv=tuple(_without_shell(expanded, environment)))


def _specified(text: str, unit: str) -> str:
    """Return a setting with its specifiers replaced."""
    name = unit.removesuffix(".service")
    known = {**DIRECTORIES_OF_SYSTEM, "n": unit, "N": name, "p": name, "i": "", "u": "root", "%": "%"}
    return SPECIFIER.sub(lambda match: known[match[1]], text)


def _without_shell(argv: list[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that `sh -c` runs in place of the shell."""
    if posixpath.basename(next(iter(argv), "")) not in SHELLS or "-c" not in argv[:-1]:
        return argv
    script = _split(argv[argv.index("-c") + 1])
    return [each for word in script for each in _expand(word, environment)]


def has_unit(host: Host, unit: str) -> bool:
    """Return whether a host has a unit."""
    return any(host.stat(f"{directory}/{unit}") for directory in DIRECTORIES)


def _read_unit(host: Host, unit: str) -> Iterator[str]:
    main = next((f"{directory}/{unit}" for directory in DIRECTORIES if host.stat(f"{directory}/{unit}")), "")
    if not main:
        return
    drop_ins: dict[str, str] = {}
    # service.d is for every service; of files with one name, that of the unit counts.
    kinds = (f"{unit}.d", f"{unit.rpartition('.')[2]}.d")
    for directory in (f"{directory}/{kind}" for kind in kinds for directory in DIRECTORIES):
        for name in host.names(directory):
            if name.endswith(".conf"):
                drop_ins.setdefault(name, f"{directory}/{name}")
    for path in (main, *(drop_ins[name] for name in sorted(drop_ins))):
        yield host.read_attribute(path)


def _service_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of [Service]. A backslash at the end of a line continues it on the next."""
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped
        elif section == "[Service]" and stripped[:1] not in ("#", ";", ""):
            name, _, value = stripped.partition("=")
            yield name.strip(), value.strip()


def _read_environment(host: Host, lines: list[tuple[str, str]]) -> dict[str, str]:
    """Return the variables of a unit. Those from its files override those that the unit sets itself."""
    assignments = [word for value in _last_after_reset(lines, "Environment") for word in _split(value)]
    for path in _last_after_reset(lines, "EnvironmentFile"):
        text = host.read_attribute(path.removeprefix("-"))
        assignments += [" ".join(_split(line)) for line in text.splitlines() if line.strip()[:1] not in ("#", ";", "")]
    pairs = (assignment.partition("=") for assignment in assignments)
    return {name.strip(): value for name, equals, value in pairs if equals}


def _last_after_reset(lines: list[tuple[str, str]], name: str) -> list[str]:
    values: list[str] = []
    for setting, value in lines:
        if setting == name:
            values = [*values, value] if value else []
    return values


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        # A quote is never closed.
        return text.split()


def _expand(word: str, environment: Mapping[str, str]) -> list[str]:
    """Expand variables in a word. `$NAME` alone becomes as many words as its value has."""
    if word.startswith("$") and word[1:].isidentifier():
        return _split(environment.get(word[1:], ""))
    return [VARIABLE.sub(lambda match: environment.get(match[1] or match[2], ""), word)]


class DirectiveConflict(ToolkitError):
    """The daemon's command line already sets a directive that its configuration file would set."""


def read_daemon_options(engine: Engine, file: ConfigFile, host: Host) -> CommandLine:
    """Return the command line of an engine's daemon, an empty one if the daemon reads another file."""
    if not engine.exclusive_options:
        return CommandLine()
    options = read_command_line(host, f"{engine.service}.service")
    named = [value for option in engine.file_options for value in options.values_of(option)]
    return options if file.shown == (named or [engine.config_path])[-1] else CommandLine()


def refuse_conflicting_directives(
    engine: Engine, file: ConfigFile, options: CommandLine, *, old: Document, new: Document
) -> None:
    """Raise DirectiveConflict if an edit changes a directive that is also on the daemon's command line."""
    for directive, option in engine.exclusive_options:
        values = options.values_of(option)
        written = new.get((directive,))
        if values and written is not ABSENT and written != old.get((directive,)):
            raise DirectiveConflict(
                f"{options.unit} has {option}={values[0]} on its command line, and {engine.service} does not start "
                f'while {file.shown} has "{directive}" too',
                hint=f"nothing was changed; remove {option} from the unit or its environment file first",
            )
