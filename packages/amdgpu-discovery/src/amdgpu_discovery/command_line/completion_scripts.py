"""Completion in shells. Scripts have commands and options as text, so that TAB starts the program only for values."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.core

from amdgpu_discovery.errors import reason
from amdgpu_discovery.files import read_file
from amdgpu_discovery.value import Value

# Each script is written for amd-ctk, in these files. One of them has a line that the table of commands replaces.
SCRIPTS = Path(__file__).with_name("shells")
PARTS = {"bash": ("walk.sh", "bash.sh"), "zsh": ("walk.sh", "zsh.sh"), "fish": ("fish.fish",)}
# If another of these shells is nearer to the program, it is the user's, even if it has no script here.
SHELLS = (*PARTS, "sh", "ash", "dash", "csh", "tcsh", "ksh", "mksh", "pwsh", "elvish", "nu", "xonsh")
OF_TYPER = ("powershell", "pwsh")
TABLE = "# The table stands here.\n"
PROGRAM = "amd-ctk"
# Typer's options. Its own scripts would start the program at each TAB.
SHOW, INSTALL = "--show-completion", "--install-completion"
# The places where Typer installs its scripts, too, below the home directory: the script, the start file of the shell,
# and the line in this by which the shell finds the script.
PLACES = {
    "bash": (".bash_completions/{program}.sh", ".bashrc", "source '{path}'"),
    "zsh": (".zfunc/_{program}", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/{program}.fish", "", ""),
}
LONGEST_HELP = 80
HELP = "Show this message and exit."
# What follows the words of a place: nothing; values that only the program knows; words of another program.
PLAIN, ASKS, ENDS = "", "asks", "ends"


class CommandHelp(Value):
    """A command: the words that name it, what may follow them, and lines NAME:HELP for its commands and options."""

    words: str
    kind: str
    below: list[str]
    flags: list[str]


def format_script(command: Any, program: str, shell: str) -> str:
    """Return the completion script of a program for bash, zsh or fish."""
    table = (_format_fish if shell == "fish" else _format_case)(_places(command, program))
    files = (SCRIPTS / name for name in PARTS[shell])
    script = _of_program("".join(file.read_text(encoding="utf-8") for file in files), program)
    first = f"#compdef {program}\n" if shell == "zsh" else ""
    return first + script.replace(TABLE, table, 1)


def answer_completion(command: Any, program: str, words: Sequence[str]) -> None:
    """Print or install a shell's script and exit, if a command line has one of Typer's options for that; BadParameter.

    The shell is the next word, or the one from which the program was started. Typer handles all other shells.
    """
    at = next((at for at, word in enumerate(words) if word in (SHOW, INSTALL)), len(words))
    # After a command, the word belongs to that command.
    if at == len(words) or any(word in command.commands for word in words[:at]):
        return
    named = next((word for word in words[at + 1 : at + 2] if not word.startswith("-")), "")
    if named and named not in (*PARTS, *OF_TYPER):
        raise typer.BadParameter(f"{named!r} is not one of {', '.join(PARTS)}.", param_hint=words[at])
    shell = named or _find_shell()
    if shell not in PARTS:
        return
    script = format_script(command, program, shell)
    if words[at] == SHOW:
        print(script, end="")
    else:
        _install(script, program, shell)
    raise typer.Exit


def _find_shell() -> str:
    """Return the nearest shell above this process, also above sudo and the like; "" if there is none."""
    pid = os.getppid()
    while pid:
        try:
            stat = read_file(f"/proc/{pid}/stat").decode(errors="replace")
        except OSError:
            break
        name, _, fields = stat.partition("(")[2].rpartition(")")
        if name in SHELLS:
            return name
        pid = int(fields.split()[1])
    return ""


def _install(script: str, program: str, shell: str) -> None:
    name, start_file, line = PLACES[shell]
    try:
        home = Path.home()
    except RuntimeError as error:
        print(f"{program}: there is no home directory to install it in (set HOME)", file=sys.stderr)
        raise typer.Exit(1) from error
    path = home / name.format(program=program)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        if start_file:
            _add_line(home / start_file, line.format(path=path))
    except OSError as error:
        print(f"{program}: {error.filename} cannot be written: {reason(error)}", file=sys.stderr)
        raise typer.Exit(1) from error
    print(f"{shell} completion installed in {path}")
    print("Completion will take effect once you restart the terminal")


def _add_line(path: Path, line: str) -> None:
    with open(path, "a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        if line not in file.read():
            file.write(f"\n{line}\n")


def _places(command: Any, words: str, parent: Any = None) -> Iterator[CommandHelp]:
    """Yield a command and, for a group, all commands below it; hidden ones are left to the program."""
    below = {name: child for name, child in getattr(command, "commands", {}).items() if not child.hidden}
    # A command gets the names of help options from the commands above it; Typer has them in no order.
    context = typer.Context(command, info_name=words, parent=parent, **command.context_settings)
    asks_help = f",{','.join(sorted(command.get_help_option_names(context)))},:{HELP}"
    flags = [_option_line(command, one) for one in command.params if _is_shown_option(one)]
    lines = [f"{name}:{child.get_short_help_str(LONGEST_HELP)}" for name, child in below.items()]
    yield CommandHelp(words=words, kind=_kind(command), below=lines, flags=[*flags, asks_help])
    for name, child in below.items():
        yield from _places(child, f"{words} {name}", context)


def _is_shown_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not parameter.hidden


def _kind(command: Any) -> str:
    if hasattr(command, "commands"):
        return PLAIN if type(command).shell_complete is typer.core.TyperGroup.shell_complete else ASKS
    if any(_offers_values(command, one) for one in command.params if one.param_type_name == "argument"):
        return ASKS
    return PLAIN if command.context_settings.get("allow_interspersed_args", True) else ENDS


def _option_line(command: Any, option: Any) -> str:
    """Return `,NAME,NAME,MARKS:HELP`; walk.sh explains the marks."""
    is_alone = option.is_flag or option.opts[0] in getattr(command, "optional_values", ())
    value = ""
    if not is_alone:
        value = "=?" if _offers_values(command, option) else "="
    names = ",".join((*option.opts, *option.secondary_opts))
    return f",{names},{value}{'*' * option.multiple}:{' '.join((option.help or '').split())}"


def _offers_values(command: Any, parameter: Any) -> bool:
    """Return whether TAB has values to offer: those of the parameter's type, or of its declared completion."""
    # Typer's own options are not declared.
    declared = inspect.signature(command.callback, eval_str=True).parameters.get(parameter.name)
    notes = getattr(declared and declared.annotation, "__metadata__", ())
    is_completed = any(getattr(note, "autocompletion", None) for note in notes)
    return is_completed or bool(parameter.type.shell_complete(None, parameter, ""))


def _format_case(places: Iterator[CommandHelp]) -> str:
    return "".join(
        f"    {_quote(place.words)})\n        kind={_quote(place.kind)}\n"
        f"        below=({_list(place.below)})\n        flags=({_list(place.flags)})\n        ;;\n"
        for place in places
    )


def _format_fish(places: Iterator[CommandHelp]) -> str:
    return "".join(
        f"        case {_quote(place.words)}\n            set kind {_quote(place.kind)}\n"
        f"            set below {_list(place.below)}\n            set flags {_list(place.flags)}\n"
        for place in places
    )


def _list(lines: Sequence[str]) -> str:
    return " ".join(map(_quote, lines))


def _quote(text: str) -> str:
    """Quote a word for bash, zsh and fish alike: a quote stands between other quotes."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _of_program(script: str, program: str) -> str:
    name = program.replace("-", "_")
    changed = script.replace(PROGRAM.replace("-", "_").upper(), name.upper())
    return changed.replace(PROGRAM.replace("-", "_"), name).replace(PROGRAM, program)
