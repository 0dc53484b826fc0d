"""Command lines as AMD's toolkit takes them: `-runtime=docker` with one dash, `help` as a word."""

from __future__ import annotations

from typing import Any

HELP_WORDS = ("help", "h")


def respell(command: Any, words: list[str]) -> list[str]:
    """Return a command line as Typer reads it: long options with two dashes, and --help where a group is asked for it.

    `command` is the root of the tree of commands. What is not understood stays as it is.
    """
    rest = list(words)
    spelt: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*spelt, word, *rest]
        subcommands = getattr(command, "commands", {})
        if not word.startswith("-") and not subcommands and _is_followed_by_a_command(command):
            return [*spelt, word, *rest]
        if word.startswith("-"):
            spelt.append(_with_two_dashes(command, word))
            # The next word is its value, even if it looks like an option.
            spelt += [rest.pop(0)] if takes_next(command, spelt[-1]) and rest else []
        elif word in HELP_WORDS and subcommands and word not in subcommands:
            return [*spelt, *rest, "--help"]
        else:
            spelt.append(word)
            command = subcommands.get(word, command)
    return spelt


def _with_two_dashes(command: Any, word: str) -> str:
    name, equals, value = word.partition("=")
    long = f"-{name}"
    return f"{long}{equals}{value}" if not word.startswith("--") and long in _options(command) else word


def takes_next(command: Any, word: str) -> bool:
    """Return whether the word behind this one is its value."""
    option = _options(command).get(word)
    if word in getattr(command, "optional_values", ()):
        return False
    return option is not None and not option.is_flag


def _is_followed_by_a_command(command: Any) -> bool:
    """Return whether a command's options end at the first other word, as those of `run` do."""
    return getattr(command, "context_settings", {}).get("allow_interspersed_args") is False


def _options(command: Any) -> dict[str, Any]:
    """Return the options of a command by each of their spellings; every command has --help."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    by_name = {name: option for option in options for name in (*option.opts, *option.secondary_opts)}
    return {"--help": _Flag, **by_name}


class _Flag:
    """Stands for an option without a value."""

    is_flag = True
