"""The tree of commands and their modules. A run imports only the modules that its command line names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

from amd_ctk.companions import COMMANDS, is_installed, module_of
from amdgpu_discovery.command_line.plain_help import PlainCommand, PlainTyper

# In the order of --help, which prints these texts. At most 50 characters, so that 80 columns show them whole.
HELP_BY_GROUP = {
    "Containers": {
        "run": "Run a command with GPUs reserved for it.",
        "explain": "Show which GPUs a container would get, and why.",
        "image": "Check whether images fit; pick one",
    },
    "This host": {
        "top": "Watch what every GPU does, and who has it.",
        "status": "Print once what every GPU does, and who has it.",
        "gpu": "GPU related commands",
        "doctor": "Find out why a container has no GPU.",
        "gpu-tracker": "GPU Tracker related commands",
        "queue": "Jobs that have GPUs, and jobs that wait",
        "reserve": "Reserve GPUs for a limited time.",
        "keep": "Keep reserved GPUs for longer.",
        "end": "End a reservation or a job, running or waiting.",
        "report": "Show who used which GPUs, and for how long.",
    },
    "Engines and clusters": {
        "runtime": "runtime related commands for AMD Container Toolkit",
        "cdi": "Container Device Interface related commands",
        "swarm": "Give GPUs to tasks of Docker Swarm",
        "slurm": "Write and check the GPUs that Slurm knows",
    },
    "Settings": {
        "config": "Settings of the toolkit",
        "users": "Users who may reserve GPUs without root",
        "simulate": "Simulated GPU servers",
        "version": "Show the version.",
    },
}
# Earlier names of commands: they work, and no list has them.
HIDDEN = ("release", "usage")
HELP_BY_COMMAND = {name: text for commands in HELP_BY_GROUP.values() for name, text in commands.items()}


class Commands(Mapping[str, Any]):
    """The commands by name. Each is created on first use: creating all takes as long as three GPU lists.

    Those of companions that are not installed are left out of lists, but not unknown: NotInstalled says what has them.
    """

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in HELP_BY_COMMAND and name not in HIDDEN:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return filter(has_command, HELP_BY_COMMAND)

    def __len__(self) -> int:
        return sum(map(has_command, HELP_BY_COMMAND))


def _make(name: str) -> Any:
    """Import the command's module, and return its `app` as a group, or its function of this name as a command.

    NotInstalled if a companion has the command and is not installed.
    """
    module = module_of(name) if name in COMMANDS else _own_module(name)
    if hasattr(module, "app"):
        group = typer.main.get_group(module.app)
        group.name = name
        return group
    alone = PlainTyper(add_completion=False)
    alone.command(
        name,
        cls=getattr(module, "COMMAND", PlainCommand),
        context_settings=getattr(module, "SETTINGS", None),
    )(getattr(module, name))
    return typer.main.get_command(alone)


def _own_module(name: str) -> Any:
    return import_module(f"amd_ctk.cli.{name.replace('-', '_')}")


def has_command(name: str) -> bool:
    """Return whether the distribution that has this command is installed."""
    return name not in COMMANDS or is_installed(COMMANDS[name][1])
