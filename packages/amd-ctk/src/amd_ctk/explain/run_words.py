"""Read the words of `docker run` and `podman run` as far as they decide about GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from amd_ctk.engine_words import takes_next_word, unknown_option, values_before
from amd_ctk.explain.container import PODMAN, Container, ExplainError
from amd_ctk.explain.env_files import every_variable, podman_variables, read_env_file
from amd_ctk.explain.refused_words import find_refused
from amd_ctk.explain.run_options import HARMLESS, OF_GPU_NODES, OF_NODES, READ, is_on, read_run_options
from amd_ctk.explain.separated import split_values

ENGINES = ("docker", "podman", "nerdctl")
COMMANDS = ("run", "create")
# Options of which Podman takes several values in one word.
SEPARATED = ("cap-add", "device-cgroup-rule", "group-add")


def is_engine_command(words: Sequence[str]) -> bool:
    """Return whether words are those of a container engine."""
    return os.path.basename(next(iter(words), "")) in ENGINES


def parse_run(words: Sequence[str], environment: Mapping[str, str]) -> Container:
    """Return the container of `docker run ...`; `environment` is what `-e NAME` takes values from. ExplainError."""
    engine = os.path.basename(words[0])
    before, behind = _split_command(engine, words[1:])
    options, image = read_run_options(engine, behind)
    is_podman = engine == PODMAN
    if is_podman:
        options = _separate(options)
    given = _given_to_podman(options, environment) if is_podman else _given_to_docker(options, environment)
    return Container(
        engine=engine,
        environment=(*_from_files(options, engine), *given),
        unset=tuple(options.get("unsetenv", [])),
        unset_all=is_on(options, "unsetenv-all"),
        host_environment=every_variable(environment, "") if is_on(options, "env-host") else (),
        devices=tuple(options.get("device", [])),
        device_rules=tuple(options.get("device-cgroup-rule", [])),
        gpus=tuple(options.get("gpus", [])),
        # `podman --runtime=crun run` is its only way.
        runtime=options.get("runtime", values_before(before, "--runtime") or [""])[-1],
        privileged=is_on(options, "privileged"),
        capabilities=tuple(name.upper().removeprefix("CAP_") for name in options.get("cap-add", [])),
        user=options.get("user", [""])[-1],
        groups=tuple(options.get("group-add", [])),
        user_namespace=_user_namespace(options),
        image=image,
        unread=tuple(_find_unread(options)),
        refusals=tuple(find_refused(engine, options, image)),
    )


def read_options(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of `docker run ...` by their long names, and read no file that they name; ExplainError."""
    engine = os.path.basename(words[0])
    return read_run_options(engine, _split_command(engine, words[1:])[1])[0]


def _split_command(engine: str, words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words in front of `run` and those behind it."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in COMMANDS:
            return words[:position], words[position + 1 :]
        if word.startswith("-"):
            if problem := unknown_option(engine, word):
                raise ExplainError(f"{engine}: {problem}", hint=f"'{engine} --help' lists the options")
            position += 2 if takes_next_word(word) else 1
        elif word == "container":
            position += 1
        else:
            break
    raise ExplainError("this is not a 'docker run' or 'podman run' command", hint="as in -- docker run IMAGE")


def _separate(options: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the options with the values of those of which Podman takes several in one word, apart by commas."""
    return {
        name: [one for value in values for one in split_values(value, name)] if name in SEPARATED else values
        for name, values in options.items()
    }


def _from_files(options: Mapping[str, list[str]], engine: str) -> Iterator[str]:
    for path in options.get("env-file", []):
        yield from read_env_file(path, engine=engine)


def _given_to_docker(options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the last NAME=VALUE of each name; a name alone that the caller does not have takes away the image's."""
    last = {entry.partition("=")[0]: entry for entry in options.get("env", [])}
    for name, entry in last.items():
        yield f"{name}={environment[name]}" if "=" not in entry and name in environment else entry


def _given_to_podman(options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    for entry in options.get("env", []):
        yield from podman_variables(entry, environment)


def _find_unread(options: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the options that can change what a container gets of GPUs and are not read here."""
    for name, values in options.items():
        if name in OF_NODES:
            found = [value for value in values if OF_GPU_NODES.search(value)]
            yield from (f"--{name} {value}" for value in found)
        elif name not in READ and name not in HARMLESS:
            yield f"--{name}"


def _user_namespace(options: Mapping[str, list[str]]) -> str:
    """Return what gives the container a user namespace of its own, or "host" where it is to have none."""
    if options.get("uidmap"):
        return "--uidmap"
    mode = options.get("userns", [""])[-1]
    return f"--userns={mode}" if mode and mode != "host" else mode
