"""systemd scopes: put a running process into one in which it can open its own GPUs, and devices that are no GPUs.

This does not affect its terminal, its parent or its signals.
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

# From systemd's bus interface: org.freedesktop.systemd1(5).
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
START = ("busctl", "--quiet", "--timeout=10", "call", *MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))")
SCOPE_SECONDS = 15.0
SCOPE_POLL_SECONDS = 0.005
SESSION, USER_MANAGER = ("session-", ".scope"), ("user@", ".service")
# Every scope except a strict one may open it.
OTHER_NODE = "/dev/full"
STRICT = "strict"
# It lists the classes of devices.
DEVICES = "/proc/devices"
GPU_CLASSES = ("drm", "kfd")
# In addition to the list, every such scope may open /dev/null and the like, and terminals.
POLICY = "closed"


def start_scope(
    name: str, pid: int, *, parent: str, allowed: Sequence[tuple[str, str]], policy: str = POLICY, proc: str = "/proc"
) -> str:
    """Put a process into a new scope below the slice `parent`, with its device filter; return the error, or ""."""
    path = f"{proc}/{pid}/cgroup"
    if is_in(path, name):
        return ""
    # Only with KillUserProcesses= does logind stop a session's scope at its end, and this one with it.
    part_of = _session_of(path)
    properties = [
        ("PIDs", "au", "1", str(pid)),
        ("Slice", "s", parent),
        ("CollectMode", "s", "inactive-or-failed"),
        ("SendSIGHUP", "b", "true"),
        ("DevicePolicy", "s", policy),
        ("DeviceAllow", "a(ss)", str(len(allowed)), *(word for each in allowed for word in each)),
    ]
    if part_of:
        properties.append(("PartOf", "as", "1", part_of))
    words = [word for each in properties for word in each]
    return _call([*START, name, "fail", str(len(properties)), *words, "0"]) or _wait_until_in(path, name)


def find_obstacle() -> str:
    """Return why scopes cannot keep processes of this machine from devices, "" if they can."""
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
    """Return the kernel's list of device classes, "" for a simulated host, which has none."""
    try:
        return host.read(DEVICES).decode()
    except OSError:
        return ""


def allowed_devices(gpus: Iterable[GpuLocation], devices: str) -> list[tuple[str, str]]:
    """Return classes and nodes with their permissions, for systemd's DeviceAllow=.

    `devices` is the content of /proc/devices. All classes except GPUs are allowed: rootless engines open /dev/fuse and
    /dev/net/tun, debuggers and profilers others.
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
    """Return why a program failed, "" if it did not."""
    import subprocess

    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SCOPE_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{words[0]} cannot be run: {getattr(error, 'strerror', None) or 'no answer in time'}"
    return (done.stderr.strip().rpartition("\n")[2] or f"{words[0]} failed") if done.returncode else ""


def _wait_until_in(path: str, name: str) -> str:
    """Wait until systemd has moved a process: it answers earlier, but sets up the filter first."""
    end = time.monotonic() + SCOPE_SECONDS
    while not is_in(path, name):
        if time.monotonic() > end:
            return "systemd did not start it in time"
        time.sleep(SCOPE_POLL_SECONDS)
    return ""


def _session_of(path: str) -> str:
    """Return the unit with whose end logind ends a user's processes, "" outside of sessions."""
    for parts in _read_cgroups(path):
        for part in parts:
            if any(part.startswith(begin) and part.endswith(end) for begin, end in (SESSION, USER_MANAGER)):
                return part
    return ""


def _read_cgroups(path: str) -> list[list[str]]:
    try:
        # A user may name a cgroup with a carriage return in it.
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return [line.rstrip("\n").split("/") for line in file]
    except OSError:
        return []


def _other_classes(devices: str) -> list[str]:
    """Return all classes of devices except those of GPUs, by systemd's names."""
    characters = devices.partition("\nBlock devices:")[0].splitlines()[1:]
    names = dict.fromkeys(line.split()[-1] for line in characters if line.strip())
    # A name with a slash at the start is one device. Its class has a name, too, or every unit may open it.
    return [f"char-{name}" for name in names if name not in GPU_CLASSES and not name.startswith("/")] + ["block-*"]
