"""Manual pages and shell completions, made from the commands themselves.

`python -I -S -B man.py LIBRARY DIRECTORY DATE VERSION` reads the commands of the packaged modules in LIBRARY and
writes DIRECTORY/{man,bash,zsh,fish}/. It runs in an isolated python: what it imports is the bundle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any as Command  # click's, which newer versions of typer bring in a module of their own

FOOTER = ".SH SEE ALSO\n.BR amd\\-container\\-runtime (1),\n.BR amd\\-ctk (1),\n.BR amd\\-gpu\\-tracker (1)\n"
# Packages bring completions along; and that --help helps is said once, above the commands.
NOT_TOLD = ("install_completion", "show_completion")
SHELLS = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}


def main(library: str, directory: str, date: str, version: str) -> None:
    """Write the pages and completions of all programs."""
    sys.path.insert(0, library)
    from typer._completion_shared import get_completion_script

    for name, command in _commands().items():
        page = format_page(command, name=name, date=date, version=version)
        _write(Path(directory, "man", f"{name}.1"), page)
        for shell, file_name in SHELLS.items():
            variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
            script = get_completion_script(prog_name=name, complete_var=variable, shell=shell)
            _write(Path(directory, shell, file_name.format(name)), script)


def format_page(command: Command, *, name: str, date: str, version: str) -> str:
    """Return the manual page of a program with all its commands."""
    words = roff(name)
    lines = [
        f'.TH {words.upper()} 1 "{date}" "AMD Container Toolkit {roff(version)}" "AMD Container Toolkit"',
        f".SH NAME\n{words} \\- {roff(_first_sentence(command).rstrip('.'))}",
        f".SH SYNOPSIS\n.B {words}\n{roff(_usage(command, name))}",
        f".SH DESCRIPTION\n{_paragraphs(command.help or '')}",
        ".SH OPTIONS",
        *_options(command, name),
        ".SH COMMANDS",
        *_subcommands(command, name),
    ]
    return "\n".join(lines) + "\n" + FOOTER


def roff(text: str) -> str:
    """Return text so that groff prints it as it stands."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))


def _commands() -> dict[str, Command]:
    import typer.main

    from amd_ctk.cli import app
    from amd_gpu_tracker import cli

    tracker = cli.tracker_app("amd-gpu-tracker", cli.say_refresh)
    tracker.callback()(cli.begin)
    return {"amd-ctk": typer.main.get_command(app), "amd-gpu-tracker": typer.main.get_command(tracker)}


def _subcommands(group: Command, name: str) -> Iterator[str]:
    """Yield a section for every command below a group, in the order of its help."""
    for word, command in getattr(group, "commands", {}).items():
        if command.hidden:
            continue
        full_name = f"{name} {word}"
        if not getattr(command, "commands", {}):
            yield f'.SS "{roff(full_name)} {roff(_usage(command, full_name))}"'
            yield _paragraphs(command.help or "")
            yield from (option for option in _options(command, full_name) if "\\-\\-help" not in option)
        yield from _subcommands(command, full_name)


def _options(command: Command, name: str) -> Iterator[str]:
    import click

    context = click.Context(command, info_name=name)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and parameter.name not in NOT_TOLD:
            yield f".TP\n.B {roff(record[0])}\n{roff(record[1])}"


def _usage(command: Command, name: str) -> str:
    import click

    return " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))


def _paragraphs(text: str) -> str:
    import inspect

    return ".nf\n" + roff(inspect.cleandoc(text).replace("\b\n", "")) + "\n.fi"


def _first_sentence(command: Command) -> str:
    return (command.help or "").strip().split("\n", 1)[0]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
