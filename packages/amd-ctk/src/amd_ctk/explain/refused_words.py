"""What of the words of `docker run` and `podman run` the engine refuses, whatever the machine, and its reason.

Values of options that have nothing to do with GPUs are left to the engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from amd_ctk.explain.container import DOCKER, PODMAN
from amd_ctk.explain.host_nodes import is_access, is_cdi_name
from amdgpu_discovery.errors import ToolkitError

OTHERS = "container:.+"
# The values that an engine takes, and the reason that it gives for another one.
VALUES = {
    DOCKER: {
        "userns": (re.compile("(host)?"), "--userns: invalid USER mode"),
        "pid": (re.compile(f"(host|{OTHERS})?"), "--pid: invalid PID mode"),
        "cgroupns": (re.compile("(host|private)?"), "--cgroupns: invalid CGROUP mode"),
        "ipc": (re.compile(f"(none|private|host|shareable|{OTHERS})?"), "invalid IPC mode: {}"),
        "annotation": (re.compile("[^=].*", re.DOTALL), "the empty string is not permitted as an annotation key"),
        "env": (re.compile("[^=].*", re.DOTALL), "invalid environment variable: {}"),
        "group-add": (re.compile(".+", re.DOTALL), "Unable to find group {}"),
    },
    PODMAN: {
        "userns": (
            re.compile(r"(auto|host|keep-id|nomap|ns|container)?(:.*)?"),
            "unrecognized namespace mode {} passed",
        ),
        "pid": (re.compile(f"(host|private|ns:.*|{OTHERS})?"), "unrecognized namespace mode {} passed"),
        "cgroupns": (re.compile(f"(host|private|ns:.*|{OTHERS})?"), "unrecognized namespace mode {} passed"),
        "ipc": (re.compile(f"(none|host|private|shareable|ns:.*|{OTHERS})?"), "unrecognized namespace mode {} passed"),
        "annotation": (re.compile(".*=.*", re.DOTALL), "annotations must be formatted KEY=VALUE"),
        "runtime": (re.compile(".+"), "must provide a valid path"),
        "env": (re.compile("([^=].*)?", re.DOTALL), 'invalid variable: "{}"'),
    },
}
DEVICE_HINT = "write it as --device=/dev/kfd, or as --device=/dev/kfd:/dev/kfd:rwm"
LARGEST_ID = 2**31 - 1
NUMBER = re.compile("-?[0-9]+")
# A name of letters, digits and separators, a host in front of it that may have capitals, a tag and a digest.
IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z0-9]+:[0-9a-f]{32,})?"
)


def find_refused(engine: str, options: Mapping[str, list[str]], image: str) -> Iterator[ToolkitError]:
    """Yield why an engine refuses words of `run`."""
    for name, (pattern, why) in VALUES.get(engine, {}).items():
        for value in options.get(name, ()):
            if not pattern.fullmatch(value):
                yield _refusal(engine, f"--{name}={value}", why.format(value))
    for value in options.get("device", ()):
        if why := _find_problem(engine, value):
            yield ToolkitError(f"{engine} refuses --device {value!r}: {why}", hint=DEVICE_HINT)
    # Of users the last counts.
    users = [("user", value) for value in options.get("user", ())[-1:]]
    for option, value in (*users, *(("group-add", value) for value in options.get("group-add", ()))):
        if not all(map(_may_be_id, value.split(":", 1))):
            yield _refusal(engine, f"--{option}={value}", f"uids and gids must be in range 0-{LARGEST_ID}")
    if engine in VALUES and not IMAGE.fullmatch(image):
        yield ToolkitError(f"{engine} refuses the image {image!r}: invalid reference format", hint="write NAME:TAG")


def _find_problem(engine: str, device: str) -> str:
    """Return why an engine refuses the value of `--device`, "" where it may take it."""
    source, *rest = device.split(":")
    if engine == PODMAN:
        return _find_problem_of_podman(device, source, rest)
    if engine != DOCKER or is_cdi_name(device):
        return ""
    if len(rest) > 2 or not source:
        return f"bad format for path: {device}"
    if len(rest) == 2 and not is_access(rest[1]):
        return f"bad mode specified: {rest[1]}"
    target = source if not rest or (len(rest) == 1 and is_access(rest[0])) else rest[0]
    return "" if target.startswith("/") else f"{target} is not an absolute path"


def _find_problem_of_podman(device: str, source: str, rest: list[str]) -> str:
    """Return what is wrong behind the source: a word that is no path has to be a mode."""
    if not source:
        return "stat : no such file or directory"
    if not source.startswith("/") and os.path.isdir(source):
        return f"invalid device mode: {source}"
    if len(rest) > 2:
        return f"invalid device specification: {device}"
    # Podman 4 refuses an empty target, too.
    wrong = [word for word in rest[:1] if word and not word.startswith("/") and not is_access(word)]
    wrong += [word for word in rest[1:] if not is_access(word)]
    return f"invalid device mode: {wrong[-1]}" if wrong else ""


def _may_be_id(word: str) -> bool:
    return not NUMBER.fullmatch(word) or 0 <= int(word[:12]) <= LARGEST_ID


def _refusal(engine: str, words: str, why: str) -> ToolkitError:
    return ToolkitError(f"{engine} refuses {words}: {why}", hint=f"'{engine} run --help' lists what it takes")
