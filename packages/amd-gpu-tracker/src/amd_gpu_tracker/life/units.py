"""Services of systemd: in which one a process is, and whether systemd starts it again."""

from __future__ import annotations

import os

from amdgpu_discovery.plain_files import read_plain_file

# Where systemd looks for a service, by precedence (systemd.unit(5)); Quadlet writes into the first of the generators'.
DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
SUFFIX = ".service"
RESTART = "Restart="
LARGEST_FILE = 64 * 1024
MOST_DROP_INS = 64


def unit_of(cgroup: str) -> str:
    """Return the service in whose cgroup this one is, "" where it is in none."""
    return next((part for part in reversed(cgroup.split("/")) if part.endswith(SUFFIX)), "")


def own_unit() -> str:
    """Return the service in which this process is, "" where it is in none."""
    lines = _read("/proc/self/cgroup").splitlines()
    # Of version 2, or systemd's own of version 1.
    ours = (line for line in lines if line.startswith("0::") or ":name=systemd:" in line)
    return next((unit for unit in map(unit_of, ours) if unit), "")


def find_restarting_unit(name: str) -> str:
    """Return the file of a service that systemd starts again when it ends, "" where it does not."""
    paths = (f"{directory}/{name}" for directory in DIRECTORIES)
    path = next((path for path in paths if os.path.isfile(path)), "")
    lines = [line for each in (path, *_drop_ins(name)) if path for line in _read(each).splitlines()]
    values = [line.removeprefix(RESTART).strip() for line in lines if line.startswith(RESTART)]
    return path if values and values[-1] not in ("no", "") else ""


def _drop_ins(name: str) -> list[str]:
    found: dict[str, str] = {}
    for directory in reversed(DIRECTORIES):
        at = f"{directory}/{name}.d"
        names = os.listdir(at) if os.path.isdir(at) else ()
        found.update({each: f"{at}/{each}" for each in names if each.endswith(".conf")})
    return [path for _, path in sorted(found.items())][:MOST_DROP_INS]


def _read(path: str) -> str:
    try:
        return read_plain_file(path, largest=LARGEST_FILE)[0].decode(errors="replace")
    except OSError:
        return ""
