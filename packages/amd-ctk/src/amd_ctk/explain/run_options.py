"""Options of `docker run` and `podman run`, and how both engines read them from words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amd_ctk.explain.container import DOCKER, PODMAN, ExplainError

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
# What has nothing to do with GPUs, of Docker 28 and Podman 5; whatever else there is is named in a note.
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
# What may give or take GPUs, and is named in a note.
NOTED = frozenset(
    (
        *("annotation", "cert-dir", "cgroup-conf", "cgroups", "env-merge", "group-entry", "pod", "pod-id-file"),
        *("preserve-fd", "preserve-fds", "rdt-class", "secret", "subgidname", "subuidname", "volumes-from"),
    )
)
# Those that one engine has alone, of Docker 20 to 28 and Podman 4 to 5.
OF_DOCKER = frozenset(
    (
        *("blkio-weight-device", "cpu-count", "cpu-percent", "detach-keys", "domainname", "health-start-interval"),
        *("io-maxbandwidth", "io-maxiops", "isolation", "kernel-memory", "link", "link-local-ip", "use-api-socket"),
    )
)
OF_PODMAN = frozenset(
    (
        *("arch", "authfile", "cert-dir", "cgroup-conf", "cgroups", "chrootdirs", "conmon-pidfile", "creds"),
        *("decryption-key", "env-host", "env-merge", "gidmap", "group-entry", "health-log-destination"),
        *("health-max-log-count", "health-max-log-size", "health-on-failure", "health-startup-cmd"),
        *("health-startup-interval", "health-startup-retries", "health-startup-success", "health-startup-timeout"),
        *("hosts-file", "hostuser", "http-proxy", "image-volume", "init-path", "no-hostname", "no-hosts", "os"),
        *("passwd", "passwd-entry", "personality", "pidfile", "pod", "pod-id-file", "preserve-fd", "preserve-fds"),
        *("rdt-class", "read-only-tmpfs", "replace", "requires", "retry", "retry-delay", "rmi", "rootfs", "sdnotify"),
        *("seccomp-policy", "secret", "shm-size-systemd", "subgidname", "subuidname", "systemd", "timeout"),
        *("tls-verify", "tz", "uidmap", "umask", "unsetenv", "unsetenv-all", "variant"),
    )
)
# Spellings that --help leaves out.
HIDDEN = frozenset(("dns-opt", "net", "net-alias", "signature-policy"))
KNOWN = FLAGS | READ | OF_NODES | HARMLESS | NOTED | HIDDEN
BY_ENGINE = {DOCKER: KNOWN - OF_PODMAN, PODMAN: KNOWN - OF_DOCKER}
# What Go's strconv.ParseBool takes.
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def read_run_options(engine: str, words: Sequence[str]) -> tuple[dict[str, list[str]], str]:
    """Return the values of each option by its long name, and the image; ExplainError where the engine ends there."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            image = (rest[:1] or [""])[0] if word == "--" else word
            return options, image
        for name, value in _read_word(engine, word, rest):
            options.setdefault(name, []).append(value)
    raise ExplainError("the command names no image", hint="put the image after the options")


def is_on(options: dict[str, list[str]], name: str) -> bool:
    """Return whether a flag is set."""
    return BOOLEANS.get(options.get(name, ["false"])[-1], False)


def _read_word(engine: str, word: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of one word, which are several in `-it`; a value may be the first of the other words."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        _require_known(engine, name, f"unknown flag: --{name}")
        yield name, _checked(name, value) if equals else "true" if name in FLAGS else _take(rest, f"--{name}")
        return
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = LONG_BY_SHORT.get(letter, letter)
        _require_known(engine, name, f"unknown shorthand flag: {letter!r} in {word}")
        if letters.startswith("=") or name not in FLAGS:
            value = letters.removeprefix("=") if letters else _take(rest, f"'{letter}' in {word}")
            yield name, _checked(name, value)
            return
        yield name, "true"


def _require_known(engine: str, name: str, problem: str) -> None:
    # Other engines have options of their own.
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
