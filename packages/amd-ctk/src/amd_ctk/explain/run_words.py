"""Read the arguments of `docker run` and `podman run` that decide about GPUs, or that the engine refuses.

The engine checks the values of options that have nothing to do with GPUs.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from amd_ctk.engines.engine_address import find_own_settings, find_service, is_elsewhere, leads_to_podman
from amd_ctk.engines.engine_words import (
    DOCKER,
    KEEP_GROUPS,
    PODMAN,
    engine_of,
    find_wrapper,
    options_before_run,
    own_values,
    unknown_option,
    without_group,
)
from amd_ctk.engines.podman_files import FIRST_WITH_SPEC_DIRECTORIES, SPEC_DIRECTORY_OPTION
from amd_ctk.explain.container import SETTINGS, Container, ExplainError
from amd_ctk.explain.env_files import every_variable, podman_variables, read_env_file
from amd_ctk.explain.host_nodes import DRI, is_access, is_cdi_name
from amd_ctk.explain.run_options import (
    GPU_NODE,
    HARMLESS,
    NODE_OPTIONS,
    READ,
    is_on,
    options_behind,
    read_run_options,
    split_values,
)
from amd_ctk.explain.unread_requests import find_misplaced
from amdgpu_discovery.errors import ToolkitError

ENGINES = ("docker", "podman", "nerdctl")
# Options whose value Podman splits at commas.
SEPARATED = ("cap-add", "device-cgroup-rule", "group-add")
SEPARATED_BEFORE_5 = ("env-file",)
# The keys of --mount.
SOURCES, TARGETS = ("source", "src"), ("target", "destination", "dst")
# What has nodes of GPUs at or below it.
GPU_SOURCE = re.compile("/|/dev(/kfd|/dri(/.+)?)?")
JOINED = "container:.+"
# The values that an engine takes, and its reason for refusing any other.
VALUES = {
    DOCKER: {
        "userns": (re.compile("(host)?"), "--userns: invalid USER mode"),
        "pid": (re.compile(f"(host|{JOINED})?"), "--pid: invalid PID mode"),
        "cgroupns": (re.compile("(host|private)?"), "--cgroupns: invalid CGROUP mode"),
        "ipc": (re.compile(f"(none|private|host|shareable|{JOINED})?"), "invalid IPC mode: {}"),
        "annotation": (re.compile("[^=].*", re.DOTALL), "the empty string is not permitted as an annotation key"),
        "env": (re.compile("[^=].*", re.DOTALL), "invalid environment variable: {}"),
        # Only Podman keeps the caller's.
        "group-add": (re.compile(f"(?!{KEEP_GROUPS}$).+", re.DOTALL), "Unable to find group {}"),
    },
    PODMAN: {
        "userns": (
            re.compile(r"(auto|host|keep-id|nomap|ns|container)?(:.*)?"),
            "unrecognized namespace mode {} passed",
        ),
        "pid": (re.compile(f"(host|private|ns:.*|{JOINED})?"), "unrecognized namespace mode {} passed"),
        "cgroupns": (re.compile(f"(host|private|ns:.*|{JOINED})?"), "unrecognized namespace mode {} passed"),
        "ipc": (re.compile(f"(none|host|private|shareable|ns:.*|{JOINED})?"), "unrecognized namespace mode {} passed"),
        "annotation": (re.compile(".*=.*", re.DOTALL), "annotations must be formatted KEY=VALUE"),
        "runtime": (re.compile(".+"), "must provide a valid path"),
        "env": (re.compile("([^=].*)?", re.DOTALL), 'invalid variable: "{}"'),
        "cgroups": (re.compile("(enabled|disabled|no-conmon|split)?"), 'invalid cgroup mode "{}"'),
    },
}
MAYBE_REMOTE = "the command may go to an engine on another machine; this is what one on this host would do"
PODMAN_SERVICE_HINT = "a service of Podman takes no runtime: use --device amd.com/gpu=0"
DEVICE_HINT = "write it as --device=/dev/kfd, or as --device=/dev/kfd:/dev/kfd:rwm"
LARGEST_ENGINE_ID = 2**31 - 1
NUMBER = re.compile("[+-]?[0-9]+")
# A name of letters, digits and separators, perhaps after a host that may have capitals, with a tag and a digest.
IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z0-9]+:[0-9a-f]{32,})?"
)


def is_engine_command(argv: Sequence[str]) -> bool:
    """Return whether a command line is one of a container engine."""
    return os.path.basename(next(iter(argv), "")) in ENGINES


def parse_run(
    argv: Sequence[str], environment: Mapping[str, str], *, is_sudo: bool = False, version: tuple[int, ...] = ()
) -> Container:
    """Return the container of `docker run ...`; `-e NAME` takes its value from `environment`. ExplainError.

    With `is_sudo`, root calls the engine, with the variables that sudo keeps. `version` is Podman's, () for a new one.
    """
    engine = engine_of(argv[0])
    before, behind = _split_command(engine, argv[1:])
    options, image, args = read_run_options(engine, behind)
    is_rootfs = is_on(options, "rootfs")
    is_podman = engine == PODMAN
    # For Podman, this is an option of the program: `podman --runtime=crun run`.
    runtime = options.get("runtime", own_values(before, "--runtime") or [""])[-1]
    is_old = () < version < (5,)
    if is_podman:
        options = _separate(options, (*SEPARATED, *SEPARATED_BEFORE_5) if is_old else SEPARATED)
        _require_known_to_podman(before, environment, runtime=runtime, version=version)
    perhaps_elsewhere = is_elsewhere(engine, before, environment)
    container = container_of(engine, options, "rootfs" if is_rootfs else image, is_old=is_old)
    return container.replace(
        # With another directory, Podman would set itself up.
        engine_options=tuple(without_group(before)) if engine == DOCKER and not perhaps_elsewhere else (),
        environment=tuple(_variables(engine, options, environment)),
        unset=tuple(options.get("unsetenv", [])),
        unset_all=is_on(options, "unsetenv-all"),
        host_environment=every_variable(environment, "") if is_on(options, "env-host") else (),
        runtime=runtime,
        is_podman_api=engine == DOCKER and leads_to_podman(before, environment),
        cgroup_manager=options.get("cgroup-manager", own_values(before, "--cgroup-manager") or [""])[-1],
        cgroups=options.get("cgroups", [""])[-1],
        cdi_directories=tuple(own_values(before, SPEC_DIRECTORY_OPTION)) if is_podman else (),
        own_settings="" if is_sudo and is_podman else find_own_settings(environment, engine, before),
        # A root file system in a directory has no variables.
        image="" if is_rootfs else image,
        wrapper=find_wrapper(argv[0]),
        misplaced=tuple(find_misplaced(args)),
        behind=tuple(options_behind(engine, args)),
        settings=SETTINGS if is_podman and not perhaps_elsewhere else (),
        # Files that are read on top of all others.
        unread=(*container.unread, *(f"--module {name}" for name in own_values(before, "--module"))),
        notes=(MAYBE_REMOTE,) if perhaps_elsewhere else (),
    )


def _require_known_to_podman(
    before: Sequence[str], environment: Mapping[str, str], *, runtime: str, version: tuple[int, ...]
) -> None:
    """Raise ExplainError for an option that this version of Podman, or its service, does not have."""
    if () < version < FIRST_WITH_SPEC_DIRECTORIES and own_values(before, SPEC_DIRECTORY_OPTION):
        raise ExplainError(f"podman: unknown flag: {SPEC_DIRECTORY_OPTION}", hint="Podman 5.8 has it")
    if runtime and find_service(before, environment) is not None:
        raise ExplainError("podman run: unknown flag: --runtime", hint=PODMAN_SERVICE_HINT)


def _variables(engine: str, options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables of a container, from files and then from options. ExplainError."""
    for path in options.get("env-file", []):
        yield from read_env_file(path, engine=engine)
    if engine != PODMAN:
        yield from _given_to_docker(options, environment)
        return
    for entry in options.get("env", []):
        yield from podman_variables(entry, environment)


def container_of(engine: str, options: Mapping[str, list[str]], image: str, *, is_old: bool = False) -> Container:
    """Return the container that an engine makes of the options of `run`, without any of its variables.

    A Compose service is read as such options too. `is_old` is for Podman 4.
    """
    mounts = (_parse_mount(name, value) for name in NODE_OPTIONS for value in options.get(name, ()))
    return Container(
        engine=engine,
        devices=tuple(options.get("device", [])),
        device_rules=tuple(options.get("device-cgroup-rule", [])),
        gpus=tuple(options.get("gpus", [])),
        runtime=options.get("runtime", [""])[-1],
        privileged=is_on(options, "privileged"),
        capabilities=tuple(name.upper().removeprefix("CAP_") for name in options.get("cap-add", [])),
        user=options.get("user", [""])[-1],
        groups=tuple(options.get("group-add", [])),
        user_namespace=_user_namespace(options),
        host_namespaces=tuple(_find_shared(options)),
        image=image,
        mounts=tuple(filter(None, mounts)),
        unread=tuple(_find_unread(options)),
        refusals=tuple(_find_refused(engine, options, image, is_old=is_old)),
    )


def read_options(argv: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of `docker run ...` by their long names, without reading any file; ExplainError."""
    engine = engine_of(argv[0])
    return read_run_options(engine, _split_command(engine, argv[1:])[1])[0]


def _split_command(engine: str, args: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the arguments in front of `run` and those after it."""
    options, position = options_before_run(args)
    if problem := next(filter(None, (unknown_option(engine, option) for option in options)), ""):
        raise ExplainError(f"{engine}: {problem}", hint=f"'{engine} --help' lists the options")
    if position is None:
        raise ExplainError("this is not a 'docker run' or 'podman run' command", hint="as in -- docker run IMAGE")
    return args[:position], args[position + 1 :]


def _separate(options: Mapping[str, list[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the options, with the values of those with these names split at commas."""
    return {
        name: [one for value in values for one in split_values(value, name)] if name in names else values
        for name, values in options.items()
    }


def _given_to_docker(options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the last NAME=VALUE of each name. A name alone, unknown to the caller, removes the image's variable."""
    last = {entry.partition("=")[0]: entry for entry in options.get("env", [])}
    for name, entry in last.items():
        yield f"{name}={environment[name]}" if "=" not in entry and name in environment else entry


def _find_unread(options: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield options that are not read here, but can change which GPUs a container gets."""
    for name, values in options.items():
        if name in NODE_OPTIONS:
            found = [value for value in values if GPU_NODE.search(value) and not _parse_mount(name, value)]
            yield from (f"--{name} {value}" for value in found)
        elif name not in READ and name not in HARMLESS:
            yield f"--{name}"


def _parse_mount(option: str, value: str) -> tuple[str, str] | None:
    """Return source and target of a value that mounts nodes of GPUs, None if it is another one."""
    source, target = _split_mount(option, value)
    source = posixpath.normpath(source)
    return (source, target) if target and GPU_SOURCE.fullmatch(source) else None


def _split_mount(option: str, value: str) -> tuple[str, str]:
    if option == "volume":
        # A target alone is a volume of the engine.
        source, target = [*value.split(":", 2), ""][:2]
    else:
        keys = dict(part.partition("=")[::2] for part in value.split(","))
        source, target = (next((keys[key] for key in names if key in keys), "") for names in (SOURCES, TARGETS))
    return source, target


def _user_namespace(options: Mapping[str, list[str]]) -> str:
    """Return the option that gives the container its own user namespace, "host" if it is to have the host's."""
    if options.get("uidmap"):
        return "--uidmap"
    mode = options.get("userns", [""])[-1]
    return f"--userns={mode}" if mode and mode != "host" else mode


def _find_shared(options: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the namespaces that a container shares with the host; the last value of an option counts."""
    for name, option in (("pid", "pid"), ("network", "net"), ("network", "network"), ("ipc", "ipc")):
        if options.get(option, [""])[-1] in ("host", "name=host"):
            yield name


def _find_refused(engine: str, options: Mapping[str, list[str]], image: str, *, is_old: bool) -> Iterator[ToolkitError]:
    """Yield the reasons for which an engine refuses arguments of `run`."""
    for name, (pattern, why) in VALUES.get(engine, {}).items():
        for value in options.get(name, ()):
            if not pattern.fullmatch(value):
                yield _refusal(engine, f"--{name}={value}", why.format(value))
    for value in options.get("device", ()):
        if why := _find_problem(engine, value, is_old=is_old):
            yield ToolkitError(f"{engine} refuses --device {value!r}: {why}", hint=DEVICE_HINT)
    # Only the last user counts.
    users = [("user", value) for value in options.get("user", ())[-1:]]
    for option, value in (*users, *(("group-add", value) for value in options.get("group-add", ()))):
        yield from refuse_ids(engine, f"--{option}={value}", value)
    # Engines take the same volume in the same words for one.
    once = {"volume": [*dict.fromkeys(options.get("volume", ()))]}
    for target in _find_twice({**options, **once}):
        yield _refusal(engine, target, "duplicate mount destination")
    if engine == PODMAN and KEEP_GROUPS in options.get("group-add", ()) and len(options["group-add"]) > 1:
        yield _refusal(engine, f"--group-add {KEEP_GROUPS}", "it is not allowed with any other --group-add options")
    if engine in VALUES and not IMAGE.fullmatch(image):
        yield ToolkitError(f"{engine} refuses the image {image!r}: invalid reference format", hint="write NAME:TAG")


def refuse_ids(engine: str, subject: str, value: str) -> Iterator[ToolkitError]:
    """Yield why an engine refuses a user with its group, or a group, as which it takes no such number."""
    numbers = (int(word[:12]) for word in value.split(":", 1) if NUMBER.fullmatch(word))
    if not all(0 <= number <= LARGEST_ENGINE_ID for number in numbers):
        yield _refusal(engine, subject, f"uids and gids must be in range 0-{LARGEST_ENGINE_ID}")


def _find_twice(options: Mapping[str, list[str]]) -> set[str]:
    """Return the paths in the container to which several volumes lead."""
    mounts = [_split_mount(name, value) for name in NODE_OPTIONS for value in options.get(name, ())]
    targets = [posixpath.normpath(target) for _, target in mounts if target]
    return {target for target in targets if targets.count(target) > 1}


def _find_problem(engine: str, device: str, *, is_old: bool) -> str:
    """Return why an engine refuses the value of `--device`, "" if it may take it."""
    source, *rest = device.split(":")
    # The name of a CDI device may have colons, as a PCI address has.
    if engine not in VALUES or is_cdi_name(device):
        return ""
    if engine == PODMAN:
        return _find_problem_of_podman(device, source, rest, is_old=is_old)
    if len(rest) > 2 or not source:
        return f"bad format for path: {device}"
    if len(rest) == 2 and not is_access(rest[1]):
        return f"bad mode specified: {rest[1]}"
    target = source if not rest or (len(rest) == 1 and is_access(rest[0])) else rest[0]
    return "" if target.startswith("/") else f"{target} is not an absolute path"


def _find_problem_of_podman(device: str, source: str, rest: list[str], *, is_old: bool) -> str:
    """Return what is wrong after the source, where a word that is not a path must be a mode."""
    if not source:
        return "stat : no such file or directory"
    if not source.startswith("/") and os.path.isdir(source):
        return f"invalid device mode: {source}"
    if len(rest) > 2:
        return f"invalid device specification: {device}"
    is_directory = posixpath.normpath(source) in ("/dev", DRI)
    if is_old and not is_directory and rest[:1] == [""] and all(map(is_access, rest[1:])):
        return "panic: runtime error: index out of range [0] with length 0"
    wrong = [word for word in rest[:1] if word and not word.startswith("/") and not is_access(word)]
    wrong += [word for word in rest[1:] if not (is_access(word) or (is_directory and not word))]
    return f"invalid device mode: {wrong[-1]}" if wrong else ""


def _refusal(engine: str, subject: str, why: str) -> ToolkitError:
    return ToolkitError(f"{engine} refuses {subject}: {why}", hint=f"'{engine} run --help' lists what it takes")
