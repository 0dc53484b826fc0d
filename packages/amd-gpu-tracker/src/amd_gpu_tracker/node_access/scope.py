"""Scopes of systemd: put a process that runs into one, in which it can open its GPUs, and whatever is no GPU.

The process stays what it is: its terminal, its parent and its signals have nothing to do with it.
"""

from __future__ import annotations

import errno
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

# Of systemd's bus interface: org.freedesktop.systemd1(5).
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
START = ("busctl", "--quiet", "--timeout=10", "call", *MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))")
SECONDS = 15.0
LOOK_SECONDS = 0.005
SESSION, USER_MANAGER = ("session-", ".scope"), ("user@", ".service")
# Every scope may open it but a strict one.
OTHER_NODE = "/dev/full"
STRICT = "strict"
# Each class of devices is named in it.
DEVICES = "/proc/devices"
GPU_CLASSES = ("drm", "kfd")
# Beside these, what every scope may open: /dev/null and the like, and terminals.
POLICY = "closed"


def start_scope(
    name: str, pid: int, *, parent: str, allowed: Sequence[tuple[str, str]], policy: str = POLICY, proc: str = "/proc"
) -> str:
    """Put a process into a new scope below the slice `parent`, with its device filter; return what failed, or ""."""
    path = f"{proc}/{pid}/cgroup"
    if is_in(path, name):
        return ""
    # With KillUserProcesses= logind stops a session's own scope at its end, and so this one; else it lets both live.
    part_of = _session_of(path)
    properties = [
        ("PIDs", "au", "1", str(pid)),
        ("Slice", "s", parent),
        ("CollectMode", "s", "inactive-or-failed"),
        ("SendSIGHUP", "b", "true"),
        ("DevicePolicy", "s", policy),
        ("DeviceAllow", "a(ss)", str(len(allowed)), *(word for each in allowed for word in each)),
        *([("PartOf", "as", "1", part_of)] if part_of else []),
    ]
    words = [word for each in properties for word in each]
    return _call([*START, name, "fail", str(len(properties)), *words, "0"]) or _wait_until_in(path, name)


def find_obstacle() -> str:
    """Return why no process of this machine can be kept from a device by a scope, "" where it can."""
    awaited, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(tell)
        os.read(awaited, 1)
        os._exit(0 if _is_forbidden(OTHER_NODE) else 1)
    os.close(awaited)
    failed = start_scope(f"amd-gpu-test-{pid}.scope", pid, parent="system.slice", allowed=(), policy=STRICT)
    os.close(tell)
    is_kept_out = os.waitpid(pid, 0)[1] == 0
    return failed or ("" if is_kept_out else "the kernel has no device filter")


def is_in(path: str, unit: str) -> bool:
    """Return whether a process is in a unit of systemd; `path` is its /proc/PID/cgroup."""
    return any(unit in parts for parts in _read_cgroups(path))


def read_devices(host: Host) -> str:
    """Return what the kernel's list of device classes says, "" for a simulated host, which has none."""
    try:
        return host.read(DEVICES).decode()
    except OSError:
        return ""


def allowed_devices(gpus: Iterable[GpuLocation], devices: str) -> list[tuple[str, str]]:
    """Return classes and nodes with what may be done with them, as systemd's DeviceAllow= has them.

    `devices` is what the kernel's /proc/devices says. Rootless engines open /dev/fuse and /dev/net/tun, debuggers and
    profilers others.
    """
    nodes = ["/dev/kfd", *(path for gpu in gpus for path in (gpu.render_path, gpu.card_path) if path)]
    return [*((name, "rwm") for name in _other_classes(devices)), *((node, "rw") for node in nodes)]


def _is_forbidden(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        return error.errno == errno.EPERM
    return False


def _call(words: Sequence[str]) -> str:
    """Return why a program failed, "" where it did not."""
    import subprocess

    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{words[0]} cannot be run: {getattr(error, 'strerror', None) or 'no answer in time'}"
    return (done.stderr.strip().rpartition("\n")[2] or f"{words[0]} failed") if done.returncode else ""


def _wait_until_in(path: str, name: str) -> str:
    """Wait until systemd has moved a process: it answers before, and sets up the filter first."""
    end = time.monotonic() + SECONDS
    while not is_in(path, name):
        if time.monotonic() > end:
            return "systemd did not start it in time"
        time.sleep(LOOK_SECONDS)
    return ""


def _session_of(path: str) -> str:
    """Return the unit at whose end logind ends what a user runs there, "" outside of sessions."""
    for parts in _read_cgroups(path):
        for part in parts:
            if any(part.startswith(begin) and part.endswith(end) for begin, end in (SESSION, USER_MANAGER)):
                return part
    return ""


def _read_cgroups(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n").split("/") for line in file]
    except OSError:
        return []


def _other_classes(devices: str) -> list[str]:
    """Return each class of devices but those of GPUs, as systemd names it."""
    characters = devices.partition("\nBlock devices:")[0].splitlines()[1:]
    names = dict.fromkeys(line.split()[-1] for line in characters if line.strip())
    # What begins with a slash is one device of a class that has a name, too, or that every unit may open.
    return [f"char-{name}" for name in names if name not in GPU_CLASSES and not name.startswith("/")] + ["block-*"]
