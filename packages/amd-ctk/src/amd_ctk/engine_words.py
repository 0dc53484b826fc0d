"""Options of engines in front of their command, such as `docker --context far run`."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ENGINES = ("docker", "podman")
COMMANDS = ("run", "create")
PREFIXES = ("env", "sudo")
OF_DOCKER = ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey")
# Those that have their value in the next word, of Docker 20 to 28, Podman 4 to 5 and nerdctl. `-c` is Docker's
# context and Podman's connection.
ENGINE_VALUES = frozenset(
    (
        *OF_DOCKER,
        *("--cgroup-manager", "--conmon", "--connection", "--events-backend", "--hooks-dir", "--identity"),
        *("--imagestore", "--module", "--network-cmd-path", "--network-config-dir", "--out", "--root", "--runroot"),
        *("--runtime", "--runtime-flag", "--ssh", "--storage-driver", "--storage-opt", "--tmpdir", "--url"),
        *("--tls-ca", "--tls-cert", "--tls-key", "--max-workers", "--cpu-profile", "--memory-profile"),
        "--registries-conf",
        *("--volumepath", "--cdi-spec-dir", "--default-mounts-file", "--namespace", "-n", "--address"),
    )
)

FLAGS = ("--help", "-h", "--version", "-v")
# The first four are of nerdctl or Docker alone.
NOT_OF_PODMAN = frozenset(
    ("-H", "--host", "-n", "--address", "-l", "--context", "--tlscacert", "--tlscert", "--tlskey")
)
BY_ENGINE = {
    "docker": frozenset((*FLAGS, *OF_DOCKER, "-D", "--debug", "--tls", "--tlsverify")),
    "podman": frozenset(
        (
            *(ENGINE_VALUES - NOT_OF_PODMAN),
            *FLAGS,
            "-r",
            "--remote",
            "--noout",
            "--syslog",
            "--transient-store",
            "--trace",
            "--debug",
        )
    ),
}


def takes_next_word(word: str) -> bool:
    """Return whether an option has its value in the next word, also as the last letter of a word as -Dl."""
    return word in ENGINE_VALUES or (len(word) > 2 and word[1] != "-" and "=" not in word and _ends_open(word[1:]))


def unknown_option(engine: str, word: str) -> str:
    """Return why an engine does not know an option in front of its command, "" where it does."""
    known = BY_ENGINE.get(engine)
    if known is None or word == "--" or word.partition("=")[0] in known:
        return ""
    if word.startswith("--"):
        return f"unknown flag: {word.partition('=')[0]}"
    return "" if f"-{word[1:2]}" in known else f"unknown shorthand flag: {word[1:2]!r} in {word}"


def _ends_open(letters: str) -> bool:
    """Return whether of letters the last alone has a value."""
    return f"-{letters[-1]}" in ENGINE_VALUES and all(f"-{letter}" not in ENGINE_VALUES for letter in letters[:-1])


def values_before(words: Sequence[str], option: str) -> list[str]:
    """Return the values of an option in front of an engine's command."""
    pairs = zip(words, [*words[1:], ""], strict=False)
    return [
        following if word == option else word.partition("=")[2]
        for word, following in pairs
        if word == option or word.startswith(f"{option}=")
    ]


def find_engine(words: Sequence[str]) -> int:
    """Return where the command stands behind `env X=1` or `sudo -E`, which leave the caller's variables to it; or 0."""
    if os.path.basename(words[0]) not in PREFIXES:
        return 0
    from amd_ctk.prefixes import without_prefixes

    command = without_prefixes(words)
    return len(words) - len(command.words) if command.keeps_environment else 0


def find_run(words: Sequence[str]) -> int | None:
    """Return where `run` or `create` stands in an engine's command line, None where it is no such command."""
    start = find_engine(words)
    if os.path.basename(words[start]) not in ENGINES:
        return None
    position = start + 1
    while position < len(words):
        word = words[position]
        if word in COMMANDS:
            return position
        if word.startswith("-"):
            position += 2 if word in ENGINE_VALUES else 1
        elif word == "container":
            position += 1
        else:
            return None
    return None
