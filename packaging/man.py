"""Make manual pages and shell completions from the commands themselves.

`python -I -S -B man.py LIBRARY DIRECTORY DATE VERSION` reads the commands of the packaged modules in LIBRARY and writes
DIRECTORY/{man,bash,zsh,fish}/. It runs in an isolated python, so it imports only the bundle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any as Command  # click's class; newer versions of typer have their own copy of click

# The sections of each program's page after its commands: titles, and pairs of a name and its meaning.
SECTIONS = {
    "amd-ctk": {
        "FILES": (
            ("/etc/amd-container-toolkit/config.toml", "Settings; 'amd-ctk config' reads and writes them."),
            ("/etc/cdi/amd.json", "The CDI spec that 'amd-ctk cdi generate' writes."),
            ("/etc/docker/daemon.json", "Docker's configuration; other engines have files of their own."),
            ("/var/lib/amd-container-toolkit", "What was changed where, so that it can be removed again."),
        ),
    },
    "amd-gpu-tracker": {
        "FILES": (
            ("/var/lib/amd-container-toolkit/gpu-tracker.json", "Whether it is enabled, and which GPUs are exclusive."),
            ("/run/amd-container-toolkit/leases", "A file for each container that has GPUs."),
        ),
    },
}
STATUS = (
    ("0", "Success."),
    ("1", "It failed; standard error says why and what to do. doctor: something is bad."),
    ("2", "An invalid command line, or something that was named and is not there."),
    ("3", "It needs root."),
    ("4", "A request for GPUs that this host cannot meet."),
    ("5, 6, 8", "A file that cannot be read, written or understood."),
    ("10", "Another process holds a lock for too long."),
    ("11", "The GPU Tracker is disabled, or did only a part of what was asked."),
    ("13", "A part of the toolkit is not installed; standard error says how to install it."),
)
ENVIRONMENT = (("AMD_CTK_HOST_ROOT", "The directory of a simulated host to work on in place of this machine."),)
EXAMPLES = {
    "amd-ctk": (
        ("amd-ctk run --count=1 --wait -- python3 train.py", "Run a command with a GPU, and wait until one is free."),
        ("amd-ctk top", "Watch what every GPU does, and who has it."),
        ("sudo amd-ctk doctor", "Find out why containers have no GPU."),
    ),
    "amd-gpu-images": (
        ("amd-gpu-images check rocm/pytorch", "Tell whether an image fits the GPUs of this host."),
        ("amd-gpu-images pick oci:images", "Print the image that fits best."),
    ),
    "amd-gpu-sharing": (
        ("sudo amd-gpu-sharing users allow alice --gpus=2 --time=24h", "Let a user reserve GPUs."),
        ("amd-gpu-sharing queue list", "Show who has GPUs, and who waits."),
    ),
    "amdgpu-simulator": (
        ("amdgpu-simulator list", "List the servers that can be simulated."),
        ("amdgpu-simulator run mi300x-8 -- bash", "Run a shell on a server with eight MI300X."),
    ),
    "amd-gpu-tracker": (
        ("sudo amd-gpu-tracker enable", "Begin to track."),
        ("sudo amd-gpu-tracker 0,1-2 exclusive", "Give GPUs 0, 1 and 2 to one container at a time."),
        ("amd-gpu-tracker status --wide", "Show which container uses which GPU."),
    ),
}
FOOTER = """.SH SEE ALSO
.BR amd\\-ctk (1),
.BR amd\\-gpu\\-tracker (1),
.BR amd\\-gpu\\-images (1),
.BR amd\\-gpu\\-sharing (1),
.BR amdgpu\\-simulator (1),
.BR amd\\-container\\-toolkit\\-config.toml (5),
.BR amd\\-container\\-runtime (8)
"""
# Packages contain the completions. --help is explained once, above the commands.
NOT_TOLD = ("install_completion", "show_completion")
SHELLS = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}


def main(library: str, directory: str, date: str, version: str) -> None:
    """Write the pages and completions of all programs."""
    sys.path.insert(0, library)
    from amdgpu_discovery.command_line.completion_scripts import format_script

    for name, command in _commands().items():
        page = format_page(command, name=name, date=date, version=version)
        _write(Path(directory, "man", f"{name}.1"), page)
        for shell, file_name in SHELLS.items():
            _write(Path(directory, shell, file_name.format(name)), format_script(command, name, shell))


def format_page(command: Command, *, name: str, date: str, version: str) -> str:
    """Return the manual page of a program with all its commands."""
    words = roff(name)
    lines = [
        f'.TH {words.upper()} 1 "{date}" "AMD Container Toolkit {roff(version)}" "AMD Container Toolkit"',
        # No hyphenation, and no justification of lines.
        ".nh\n.ad l",
        f".SH NAME\n{words} \\- {roff(_first_sentence(command).rstrip('.'))}",
        f".SH SYNOPSIS\n.B {words}\n{roff(_usage(command, name))}",
        *_section("EXAMPLES", EXAMPLES[name]),
        f".SH DESCRIPTION\n{_paragraphs(command.help or '')}",
        ".SH OPTIONS",
        *_options(command, name),
        ".SH COMMANDS",
        *_subcommands(command, name),
        *(line for title, pairs in SECTIONS.get(name, {}).items() for line in _section(title, pairs)),
        *_section("EXIT STATUS", STATUS),
        *_section("ENVIRONMENT", ENVIRONMENT),
    ]
    return "\n".join(lines) + "\n" + FOOTER


def roff(text: str) -> str:
    """Escape text for groff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))


def _commands() -> dict[str, Command]:
    import typer.main

    from amd_ctk.cli.root import app
    from amd_gpu_images.cli import make_app as make_images
    from amd_gpu_sharing.cli.program import make_app as make_sharing
    from amd_gpu_tracker.cli import make_app as make_tracker
    from amdgpu_simulator.cli import make_app as make_simulator

    programs = {
        "amd-ctk": app,
        "amd-gpu-tracker": make_tracker(),
        "amd-gpu-images": make_images(),
        "amd-gpu-sharing": make_sharing(),
        "amdgpu-simulator": make_simulator(),
    }
    return {name: typer.main.get_command(program) for name, program in programs.items()}


def _subcommands(group: Command, name: str) -> Iterator[str]:
    """Yield a section for every command below a group, in the order of its help."""
    for word, command in getattr(group, "commands", {}).items():
        if command.hidden:
            continue
        full_name = f"{name} {word}"
        # Some groups do something themselves, such as `queue` and `report`.
        if not getattr(command, "commands", {}) or command.params:
            yield f'.SS "{roff(full_name)} {roff(_usage(command, full_name))}"'
            yield _paragraphs(command.help or "")
            yield from (option for option in _options(command, full_name) if "\\-\\-help" not in option)
            if command.epilog:
                yield f".PP\n{_paragraphs(command.epilog)}"
        yield from _subcommands(command, full_name)


def _section(title: str, pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for name, text in pairs:
        yield f".TP\n.B {roff(name)}\n{roff(text)}"


def _options(command: Command, name: str) -> Iterator[str]:
    import typer

    context = typer.Context(command, info_name=name)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if parameter.param_type_name == "option" and record and parameter.name not in NOT_TOLD:
            yield f".TP\n.B {roff(record[0])}\n{roff(record[1])}"


def _usage(command: Command, name: str) -> str:
    import typer

    return " ".join(command.collect_usage_pieces(typer.Context(command, info_name=name)))


def _paragraphs(text: str) -> str:
    """Reflow text to the width of the terminal, except paragraphs after a backspace, which keep their lines."""
    import inspect

    return "\n.PP\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    kept = text.startswith("\b\n")
    return f".nf\n{roff(text[2:])}\n.fi" if kept else roff(text)


def _first_sentence(command: Command) -> str:
    return (command.help or "").strip().split("\n", 1)[0]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
