"""Options of `docker run` and `podman run`, and how both engines parse them.

Also the value of Docker's `--gpus`, a request for devices of a driver, as Docker's client reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from amd_ctk.engines.engine_words import DOCKER, PODMAN
from amd_ctk.explain.container import ExplainError
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

EITHER = ""
FLAG, VALUE = False, True
# Every option of `run`, of Docker 20 to 28 and Podman 4 to 5, with its letter: its kind, whether only one engine has
# it, and whether it takes a value. "read" options decide about GPUs. "nodes" options may bring nodes of the host.
# "noted" options may give or take GPUs, and a note names them. "harmless" options have nothing to do with GPUs.
OPTIONS = (
    ("read", EITHER, FLAG, "privileged"),
    ("read", EITHER, VALUE, "cap-add device device-cgroup-rule env=e env-file gpus group-add runtime user=u userns"),
    ("read", PODMAN, FLAG, "env-host rootfs unsetenv-all"),
    ("read", PODMAN, VALUE, "cgroups gidmap uidmap unsetenv"),
    ("nodes", EITHER, VALUE, "mount volume=v"),
    ("noted", EITHER, VALUE, "annotation volumes-from"),
    # Spellings that --help leaves out.
    ("noted", EITHER, VALUE, "dns-opt net-alias signature-policy"),
    ("noted", PODMAN, VALUE, "cert-dir cgroup-conf env-merge group-entry pod pod-id-file preserve-fd"),
    ("noted", PODMAN, VALUE, "preserve-fds rdt-class secret subgidname subuidname"),
    # Options of Podman itself, which it also takes after `run`: here, and in the last rows.
    ("noted", PODMAN, VALUE, "default-mounts-file hooks-dir runtime-flag"),
    ("harmless", EITHER, FLAG, "detach=d disable-content-trust help init interactive=i no-healthcheck"),
    ("harmless", EITHER, FLAG, "oom-kill-disable publish-all=P quiet=q read-only rm sig-proxy tty=t"),
    ("harmless", EITHER, VALUE, "add-host attach=a blkio-weight blkio-weight-device cap-drop cgroup-parent cgroupns"),
    ("harmless", EITHER, VALUE, "cidfile cpu-period detach-keys kernel-memory"),
    ("harmless", EITHER, VALUE, "cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares=c cpus cpuset-cpus cpuset-mems"),
    ("harmless", EITHER, VALUE, "device-read-bps device-read-iops device-write-bps device-write-iops dns dns-option"),
    ("harmless", EITHER, VALUE, "dns-search entrypoint expose health-cmd health-interval health-retries"),
    ("harmless", EITHER, VALUE, "health-start-period health-timeout hostname=h ip ip6 ipc label=l label-file"),
    ("harmless", EITHER, VALUE, "log-driver log-opt mac-address memory=m memory-reservation memory-swap"),
    ("harmless", EITHER, VALUE, "memory-swappiness name net network network-alias oom-score-adj pid pids-limit"),
    ("harmless", EITHER, VALUE, "platform publish=p pull restart security-opt shm-size stop-signal stop-timeout"),
    ("harmless", EITHER, VALUE, "storage-opt sysctl tmpfs ulimit uts volume-driver workdir=w"),
    ("harmless", DOCKER, FLAG, "use-api-socket"),
    ("harmless", DOCKER, VALUE, "cpu-count cpu-percent domainname health-start-interval io-maxbandwidth"),
    ("harmless", DOCKER, VALUE, "io-maxiops isolation link link-local-ip"),
    ("harmless", PODMAN, FLAG, "http-proxy no-hostname no-hosts passwd read-only-tmpfs replace rmi tls-verify"),
    ("harmless", PODMAN, VALUE, "arch authfile chrootdirs conmon-pidfile creds decryption-key health-log-destination"),
    ("harmless", PODMAN, VALUE, "health-max-log-count health-max-log-size health-on-failure health-startup-cmd"),
    ("harmless", PODMAN, VALUE, "health-startup-interval health-startup-retries health-startup-success"),
    ("harmless", PODMAN, VALUE, "health-startup-timeout hosts-file hostuser image-volume init-path os passwd-entry"),
    ("harmless", PODMAN, VALUE, "personality pidfile requires retry retry-delay sdnotify seccomp-policy"),
    ("harmless", PODMAN, VALUE, "shm-size-systemd systemd timeout tz umask variant"),
    # Former spellings, which --help leaves out.
    ("harmless", PODMAN, VALUE, "healthcheck-command healthcheck-interval healthcheck-retries"),
    ("harmless", PODMAN, VALUE, "healthcheck-start-period healthcheck-timeout override-arch override-os"),
    ("harmless", PODMAN, VALUE, "override-variant"),
    ("harmless", PODMAN, FLAG, "syslog trace"),
    ("harmless", PODMAN, VALUE, "cgroup-manager conmon cpu-profile events-backend log-level max-workers"),
    ("harmless", PODMAN, VALUE, "memory-profile namespace network-cmd-path network-config-dir registries-conf root"),
    ("harmless", PODMAN, VALUE, "runroot storage-driver tmpdir volumepath"),
)
ROWS = [(*row[:3], *word.partition("=")[::2]) for row in OPTIONS for word in row[3].split()]
FLAGS = frozenset(name for _, _, takes_value, name, _ in ROWS if not takes_value)
READ, NODE_OPTIONS, HARMLESS = (
    frozenset(name for kind, _, _, name, _ in ROWS if kind == wanted) for wanted in ("read", "nodes", "harmless")
)
BY_ENGINE = {
    engine: frozenset(name for _, only, _, name, _ in ROWS if only in (EITHER, engine)) for engine in (DOCKER, PODMAN)
}
LONG_BY_SHORT = {letter: name for *_, name, letter in ROWS if letter}
# A value that brings nodes of GPUs.
GPU_NODE = re.compile(r"(^|=|:)/dev(/dri|/kfd|/?(:|,|$))")
# What is likely to be meant for the engine. Programs have --help and single letters, too.
OPTION_BEHIND = re.compile(r"--(?!help|quiet)[a-z]|-[dit]{2,3}( |$)|-[vp] ?[^ ]+:|-e ?\w+=")
# What Go's strconv.ParseBool accepts.
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}

# Values separated by commas, as Go's encoding/csv reads a line of them; a part in quotes may contain commas.
QUOTED = re.compile(r'"((?:[^"]|"")*)"(,|$)')
PLAIN = re.compile(r'([^,"]*)(,|$)')
# The keys of --gpus.
KEYS = ("driver", "count", "device", "capabilities", "options")
COUNT = re.compile(r"[+-]?[0-9]{1,18}")
ALL_DEVICES = -1
HINT = "write it as --gpus all, or as --gpus driver=cdi,device=amd.com/gpu=0"


class GpusRequest(Value):
    """A driver, "" if Docker chooses one, and the number of devices (-1: all) or their names."""

    driver: str = ""
    count: int = 0
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


def read_run_options(engine: str, args: Sequence[str]) -> tuple[dict[str, list[str]], str, list[str]]:
    """Return the values of each option by its long name, the image, and what follows it.

    ExplainError if the engine refuses the options.
    """
    options: dict[str, list[str]] = {}
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--" or not arg.startswith("-") or arg == "-":
            image = (rest[:1] or [""])[0] if arg == "--" else arg
            return options, image, rest[1:] if arg == "--" else rest
        for name, value in _read_arg(engine, arg, rest):
            options.setdefault(name, []).append(value)
    raise ExplainError("the command names no image", hint="put the image after the options")


def options_behind(engine: str, args: Sequence[str]) -> Iterator[str]:
    """Yield the options of an engine with which the arguments of a container's program begin, with their values."""
    rest = list(args)
    while rest and OPTION_BEHIND.match(" ".join(rest[:2])):
        left = len(rest)
        try:
            list(_read_arg(engine, rest.pop(0), rest))
        except ExplainError:
            return
        yield " ".join(args[len(args) - left : len(args) - len(rest)])


def is_on(options: Mapping[str, list[str]], name: str) -> bool:
    """Return whether a flag is set."""
    return BOOLEANS.get(options.get(name, ["false"])[-1], False)


def split_values(text: str, option: str) -> list[str]:
    """Return the parts of an option's value; ExplainError for quotes that the engine refuses."""
    parts: list[str] = []
    position, more = 0, bool(text)
    while more:
        found = (QUOTED if text.startswith('"', position) else PLAIN).match(text, position)
        if not found:
            problem = f'invalid argument {text!r} for "--{option}" flag: a quote in the wrong place'
            raise ExplainError(problem, hint="put quotes around a whole part, as in '\"device=0,1\"'")
        parts.append(found[1].replace('""', '"') if text.startswith('"', position) else found[1])
        position, more = found.end(), found[2] == ","
    return parts


def parse_gpus(text: str) -> GpusRequest:
    """Return the request in a value of `--gpus`; ToolkitError with the client's reason if the client refuses it."""
    if not text:
        raise _refused(text, "EOF")
    found: dict[str, str] = {}
    for part in split_values(text, "gpus"):
        key, equals, value = part.partition("=")
        if key in found:
            raise _refused(text, f"gpu request key '{key}' can be specified only once")
        if equals and key not in KEYS:
            raise _refused(text, f"unexpected key '{key}' in '{part}'")
        found[key] = value
        if not equals:
            found["count"] = key
    count = 0 if "device" in found else 1
    if "count" in found:
        count = _parse_count(text, found["count"])
    devices = tuple(found["device"].split(",")) if "device" in found else ()
    if count and devices:
        raise _refused(text, "cannot set both Count and DeviceIDs on device request")
    capabilities = tuple(found["capabilities"].split(",")) if "capabilities" in found else ()
    return GpusRequest(driver=found.get("driver", ""), count=count, devices=devices, capabilities=capabilities)


def _read_arg(engine: str, arg: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of one argument, such as the two of `-it`. A value may be the first of `rest`."""
    if arg.startswith("--"):
        name, equals, value = arg[2:].partition("=")
        _require_known(engine, name, f"unknown flag: --{name}")
        if equals:
            yield name, _checked(name, value)
        else:
            yield name, "true" if name in FLAGS else _take(rest, f"--{name}")
        return
    letters = arg[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = LONG_BY_SHORT.get(letter, letter)
        _require_known(engine, name, f"unknown shorthand flag: {letter!r} in {arg}")
        if letters.startswith("=") or name not in FLAGS:
            value = letters.removeprefix("=") if letters else _take(rest, f"'{letter}' in {arg}")
            yield name, _checked(name, value)
            return
        yield name, "true"


def _require_known(engine: str, name: str, problem: str) -> None:
    # The options of other engines are unknown.
    if name not in BY_ENGINE.get(engine, (name,)):
        raise ExplainError(f"{engine} run: {problem}", hint=f"'{engine} run --help' lists the options")


def _checked(name: str, value: str) -> str:
    if name in FLAGS and value not in BOOLEANS:
        raise ExplainError(f'invalid argument "{value}" for "--{name}" flag', hint=f"write --{name} or --{name}=false")
    return value


def _take(rest: list[str], option: str) -> str:
    if not rest:
        raise ExplainError(f"flag needs an argument: {option}", hint="put the image after the options")
    return rest.pop(0)


def _parse_count(text: str, value: str) -> int:
    if value == "all":
        return ALL_DEVICES
    if not COUNT.fullmatch(value):
        raise _refused(text, "count must be an integer")
    return int(value)


def _refused(text: str, why: str) -> ToolkitError:
    return ToolkitError(f"docker refuses --gpus {text!r}: {why}", hint=HINT)
