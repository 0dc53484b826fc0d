"""The commands of amd-ctk with the modules they are in: of these, one run imports what its command line names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

# In the order of --help, whose lines these are.
HELP_BY_COMMAND = {
    "version": "Show the version.",
    "doctor": "Find out why containers have no GPU, and say what to do.",
    "explain": "Say which GPUs a container would get, and why; nothing is started or changed.",
    "runtime": "runtime related commands for AMD Container Toolkit",
    "config": "Settings of the AMD Container Toolkit",
    "cdi": "Container Device Interface related commands",
    "gpu": "GPU related commands",
    "image": "Image related commands",
    "run": "Reserve GPUs, run COMMAND with them, and give them back when it ends.",
    "reserve": "Reserve GPUs for later.",
    "release": "Give reserved GPUs back before their time is over.",
    "queue": "Jobs that have GPUs, and those that wait",
    "users": "Who may reserve GPUs without root",
    "report": "Show who used which GPUs, and for how long.",
    "usage": "Record how busy GPUs are, for reports",
    "gpu-tracker": "GPU Tracker related commands",
    "swarm": "Docker Swarm related commands",
    "slurm": "Slurm related commands",
}


class Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for: making all of them takes as long as three GPU lists."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in HELP_BY_COMMAND:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(HELP_BY_COMMAND)

    def __len__(self) -> int:
        return len(HELP_BY_COMMAND)


def _make(name: str) -> Any:
    """Return a command or a group of them; its module has an `app`, or a function of the command's name."""
    from amd_ctk.cli.examples import add_examples, examples_of

    module = import_module(f"amd_ctk.cli.{name.replace('-', '_')}")
    if hasattr(module, "app"):
        add_examples(module.app, name)
        group = typer.main.get_group(module.app)
        group.name = name
        return group
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(
        name,
        cls=getattr(module, "COMMAND", None),
        epilog=examples_of(name),
        context_settings=getattr(module, "SETTINGS", None),
    )(getattr(module, name))
    return typer.main.get_command(alone)
