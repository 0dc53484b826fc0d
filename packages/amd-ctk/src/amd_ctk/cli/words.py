"""Accept command lines of the original toolkit: `-runtime=docker` with one dash, and `help` as a word."""

from __future__ import annotations

from typing import Any

HELP_ALIASES = ("help", "h")


def respell(command: Any, args: list[str]) -> list[str]:
    """Return the command line as Typer reads it: with two dashes for long options, and --help for `help`.

    `command` is the root of the command tree. Words that are not understood stay as they are.
    """
    rest = list(args)
    spelt: list[str] = []
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            return [*spelt, arg, *rest]
        subcommands = getattr(command, "commands", {})
        if not arg.startswith("-") and not subcommands and _is_followed_by_a_command(command):
            return [*spelt, arg, *rest]
        if arg.startswith("-"):
            spelt.append(_with_two_dashes(command, arg))
            # The next word is the option's value, even if it looks like an option.
            spelt += [rest.pop(0)] if takes_value(command, spelt[-1]) and rest else []
        elif arg in HELP_ALIASES and subcommands and arg not in subcommands:
            return [*spelt, *rest, "--help"]
        else:
            spelt.append(arg)
            command = subcommands.get(arg, command)
    return spelt


def _with_two_dashes(command: Any, arg: str) -> str:
    name, equals, value = arg.partition("=")
    long = f"-{name}"
    return f"{long}{equals}{value}" if not arg.startswith("--") and long in _options(command) else arg


def takes_value(command: Any, arg: str) -> bool:
    """Return whether the next word is the value of this option."""
    option = _options(command).get(arg)
    if arg in getattr(command, "optional_values", ()):
        return False
    return option is not None and not option.is_flag


def _is_followed_by_a_command(command: Any) -> bool:
    """Return whether the command's options end at the first positional argument, as those of `run` do."""
    return getattr(command, "context_settings", {}).get("allow_interspersed_args") is False


def _options(command: Any) -> dict[str, Any]:
    """Return the options of a command by each of their spellings. Every command has --help."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    by_name = {name: option for option in options for name in (*option.opts, *option.secondary_opts)}
    return {"--help": _Flag, **by_name}


class _Flag:
    """Stands for an option that takes no value."""

    is_flag = True
