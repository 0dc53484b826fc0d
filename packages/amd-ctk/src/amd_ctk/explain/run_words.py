"""Read the words of `docker run` and `podman run` as far as they decide about GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from amd_ctk.engine_words import ENGINE_VALUES, values_before
from amd_ctk.explain.container import PODMAN, Container, ExplainError
from amdgpu_discovery.errors import reason
from amdgpu_discovery.files import read_file

ENGINES = ("docker", "podman", "nerdctl")
COMMANDS = ("run", "create")
# Of variables.
LARGEST_FILE = 1024 * 1024
# Options of `run` without a value, of Docker 28 and Podman 5; every other takes one.
FLAGS = frozenset(
    (
        *("detach", "disable-content-trust", "env-host", "help", "http-proxy", "init", "interactive", "no-healthcheck"),
        *("no-hosts", "no-hostname", "oom-kill-disable", "passwd", "privileged", "publish-all", "quiet", "read-only"),
        *("read-only-tmpfs", "replace", "rm", "rmi", "rootfs", "sig-proxy", "tls-verify", "tty", "unsetenv-all"),
        "use-api-socket",
    )
)
LONG_BY_SHORT = {
    "a": "attach",
    "c": "cpu-shares",
    "d": "detach",
    "e": "env",
    "h": "hostname",
    "i": "interactive",
    "l": "label",
    "m": "memory",
    "p": "publish",
    "P": "publish-all",
    "q": "quiet",
    "t": "tty",
    "u": "user",
    "v": "volume",
    "w": "workdir",
}
READ = frozenset(
    (
        *("env", "env-file", "env-host", "unsetenv", "unsetenv-all", "device", "device-cgroup-rule", "gpus", "runtime"),
        *("privileged", "cap-add", "user", "group-add", "userns", "uidmap", "gidmap"),
    )
)
# Options that may bring nodes of the host, and how such a value looks.
OF_NODES = frozenset(("volume", "mount"))
OF_GPU_NODES = re.compile(r"(^|=|:)/dev(/dri|/kfd|/?(:|,|$))")
# What has nothing to do with GPUs, of Docker 28 and Podman 5; whatever else comes is named in a note.
HARMLESS = FLAGS - READ - {"rootfs"} | frozenset(
    (
        *("add-host", "arch", "attach", "authfile", "blkio-weight", "blkio-weight-device", "cap-drop", "cgroup-parent"),
        *("cgroupns", "chrootdirs", "cidfile", "conmon-pidfile", "cpu-count", "cpu-percent", "cpu-period", "cpu-quota"),
        *(
            "cpu-rt-period",
            "cpu-rt-runtime",
            "cpu-shares",
            "cpus",
            "cpuset-cpus",
            "cpuset-mems",
            "creds",
            "decryption-key",
        ),
        *("detach-keys", "device-read-bps", "device-read-iops", "device-write-bps", "device-write-iops", "dns"),
        *("dns-option", "dns-search", "domainname", "entrypoint", "expose", "health-cmd", "health-interval"),
        *(
            "health-log-destination",
            "health-max-log-count",
            "health-max-log-size",
            "health-on-failure",
            "health-retries",
        ),
        *("health-start-interval", "health-start-period", "health-startup-cmd", "health-startup-interval"),
        *("health-startup-retries", "health-startup-success", "health-startup-timeout", "health-timeout", "hostname"),
        *("hosts-file", "hostuser", "image-volume", "init-path", "io-maxbandwidth", "io-maxiops", "ip", "ip6", "ipc"),
        *("isolation", "kernel-memory", "label", "label-file", "link", "link-local-ip", "log-driver", "log-opt"),
        *("mac-address", "memory", "memory-reservation", "memory-swap", "memory-swappiness", "name", "net", "network"),
        *("network-alias", "oom-score-adj", "os", "passwd-entry", "personality", "pid", "pidfile", "pids-limit"),
        *("platform", "publish", "pull", "requires", "restart", "retry", "retry-delay", "sdnotify", "seccomp-policy"),
        *("security-opt", "shm-size", "shm-size-systemd", "stop-signal", "stop-timeout", "storage-opt", "sysctl"),
        *("systemd", "timeout", "tmpfs", "tz", "ulimit", "umask", "uts", "variant", "volume-driver", "workdir"),
    )
)


def is_engine_command(words: Sequence[str]) -> bool:
    """Return whether words are those of a container engine."""
    return os.path.basename(next(iter(_without_sudo(words)), "")) in ENGINES


def parse_run(words: Sequence[str], environment: Mapping[str, str]) -> Container:
    """Return the container of `docker run ...`; `environment` is what `-e NAME` takes values from. ExplainError."""
    words = _without_sudo(words)
    engine = os.path.basename(words[0])
    before, behind = _split_command(words[1:])
    options, image = _read_options(behind)
    is_podman = engine == PODMAN
    given = _given_to_podman(options, environment) if is_podman else _given_to_docker(options, environment)
    return Container(
        engine=engine,
        environment=(*_from_files(options), *given),
        unset=tuple(options.get("unsetenv", [])),
        unset_all=_is_on(options, "unsetenv-all"),
        host_environment=_every(environment, "") if _is_on(options, "env-host") else (),
        devices=tuple(options.get("device", [])),
        device_rules=tuple(options.get("device-cgroup-rule", [])),
        gpus=tuple(filter(None, options.get("gpus", []))),
        # `podman --runtime=crun run` is its only way.
        runtime=options.get("runtime", values_before(before, "--runtime") or [""])[-1],
        privileged=_is_on(options, "privileged"),
        capabilities=tuple(name.upper().removeprefix("CAP_") for name in options.get("cap-add", [])),
        user=options.get("user", [""])[-1],
        groups=tuple(options.get("group-add", [])),
        user_namespace=_user_namespace(options),
        image=image,
        unread=tuple(_find_unread(options)),
    )


def read_options(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of `docker run ...` by their long names, and read no file that they name; ExplainError."""
    return _read_options(_split_command(_without_sudo(words)[1:])[1])[0]


def _without_sudo(words: Sequence[str]) -> Sequence[str]:
    return words[1:] if words and words[0] == "sudo" else words


def _split_command(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words in front of `run` and those behind it."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in COMMANDS:
            return words[:position], words[position + 1 :]
        if word.startswith("-"):
            position += 2 if word in ENGINE_VALUES else 1
        elif word == "container":
            position += 1
        else:
            break
    raise ExplainError("this is not a 'docker run' or 'podman run' command", hint="as in -- docker run IMAGE")


def _read_options(words: Sequence[str]) -> tuple[dict[str, list[str]], str]:
    """Return the values of each option by its long name, and the image; ExplainError where there is none."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            image = (rest[:1] or [""])[0] if word == "--" else word
            return options, image
        for name, value in _read_word(word, lambda: rest.pop(0) if rest else ""):
            options.setdefault(name, []).append(value)
    raise ExplainError("the command names no image", hint="put the image after the options")


def _read_word(word: str, take: Callable[[], str]) -> Iterator[tuple[str, str]]:
    """Yield the options of one word, which are several in `-it`; `take` returns the next word as a value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        yield name, value if equals else "true" if name in FLAGS else take()
        return
    letters = word[1:]
    while letters:
        name, letters = LONG_BY_SHORT.get(letters[0], letters[0]), letters[1:]
        if name not in FLAGS:
            yield name, letters.removeprefix("=") or take()
            return
        yield name, "true"


def _from_files(options: Mapping[str, list[str]]) -> Iterator[str]:
    for path in options.get("env-file", []):
        yield from read_env_file(path)


def read_env_file(path: str) -> Iterator[str]:
    """Yield the variables of a file as engines read it; ExplainError."""
    try:
        # What the caller names may be the pipe of <(command).
        lines = read_file(path, largest=LARGEST_FILE).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise ExplainError(f"the file {path} of variables cannot be read: {why}") from error
    for line in lines:
        entry = line.lstrip()
        name = entry.strip()
        if entry and not entry.startswith("#") and ("=" in entry or name in os.environ):
            yield entry if "=" in entry else f"{name}={os.environ[name]}"


def _given_to_docker(options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the last NAME=VALUE of each name; a name alone that the caller does not have takes away the image's."""
    last = {entry.partition("=")[0]: entry for entry in options.get("env", [])}
    for name, entry in last.items():
        yield f"{name}={environment[name]}" if "=" not in entry and name in environment else entry


def _given_to_podman(options: Mapping[str, list[str]], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield NAME=VALUE; a name alone takes the caller's value where there is one, NAME* all that begin like that."""
    for entry in options.get("env", []):
        name = entry.lstrip()
        if "=" in name:
            yield name
        elif name.endswith("*"):
            yield from _every(environment, name.removesuffix("*"))
        elif name in environment:
            yield f"{name}={environment[name]}"


def _every(environment: Mapping[str, str], beginning: str) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in environment.items() if name.startswith(beginning))


def _find_unread(options: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the options that can change what a container gets of GPUs and are not read here."""
    for name, values in options.items():
        if name in OF_NODES:
            found = [value for value in values if OF_GPU_NODES.search(value)]
            yield from (f"--{name} {value}" for value in found)
        elif name not in READ and name not in HARMLESS:
            yield f"--{name}"


def _is_on(options: Mapping[str, list[str]], name: str) -> bool:
    return options.get(name, ["false"])[-1].lower() in ("true", "1", "t")


def _user_namespace(options: Mapping[str, list[str]]) -> str:
    """Return what gives the container a user namespace of its own, or "host" where it is to have none."""
    if options.get("uidmap"):
        return "--uidmap"
    mode = options.get("userns", [""])[-1]
    return f"--userns={mode}" if mode and mode != "host" else mode
