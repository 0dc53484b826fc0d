"""Keep a container's GPUs for a moment if its engine restarts it. Otherwise, waiting jobs could take them.

Docker tries a start once, so a container that is refused its GPUs then stays down. The engine's own files show whether
it will restart a container. They are read after a container has ended, never when one starts.
"""

from __future__ import annotations

import os
from contextlib import suppress

from amd_gpu_tracker.book.history import FOUND, PROGRAM, finish
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lock import is_held
from amd_gpu_tracker.book.state import REPAIRS, State
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.container_names import as_object, docker_directory, read_of_root
from amd_gpu_tracker.leases.processes import FIRST_PROCESS
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.untrusted.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.leases.processes import Processes

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
LARGEST_UNIT_FILE = 64 * 1024
MOST_UNIT_DROP_INS = 64
# Of Docker and Podman; "on-failure" is written without its number of attempts.
POLICIES = ("always", "unless-stopped", "on-failure")
# The start time that dockerd writes for a container that never ran.
NEVER = "0001-01-01"
AUTOREMOVE = "io.podman.annotations.autoremove"
# Podman's database of containers, in its storage directory: since 4.8, and before.
SQLITE, BOLT = ("db.sql", "libpod/db.sql"), "libpod/bolt_state.db"
LARGEST_BOLT = 64 * 1024 * 1024
# A file in /run whose lock a service holds that follows all jobs.
FOLLOWED = "followed"


def unit_of(cgroup: str) -> str:
    """Return the service that a cgroup is in, "" if it is in none."""
    return next((part for part in reversed(cgroup.split("/")) if part.endswith(SUFFIX)), "")


def own_unit() -> str:
    """Return the service that this process is in, "" if it is in none."""
    lines = _read("/proc/self/cgroup").splitlines()
    # Of version 2, or systemd's own of version 1.
    ours = (line for line in lines if line.startswith("0::") or ":name=systemd:" in line)
    return next((unit for unit in map(unit_of, ours) if unit), "")


def find_restarting_unit(name: str) -> str:
    """Return the file of a service that systemd restarts when it ends, "" if it does not."""
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
    return [path for _, path in sorted(found.items())][:MOST_UNIT_DROP_INS]


def _read(path: str) -> str:
    try:
        return read_plain_file(path, largest=LARGEST_UNIT_FILE)[0].decode(errors="replace")
    except OSError:
        return ""


def end_lease(state: State, path: str, lease: Lease, processes: Processes, how: str) -> Lease | None:
    """Remove the lease of a container that has ended, or return the one that keeps its GPUs for a moment.

    The caller holds the lock. The history records `how` the end became known.
    """
    if how == FOUND and kind_of(lease).is_followed and is_held(f"{state.run_directory}/{FOLLOWED}"):
        # The service has not seen it yet, so it ended a moment ago.
        how = PROGRAM
    if how == FOUND:
        state.count(REPAIRS)
    kept = find_restart_lease(state, lease, processes)
    if kept is not None:
        # On a full disk, the GPUs are released.
        with suppress(FileError):
            state.write_lease(kept)
            if state.records_history:
                finish(state.history_directory, path, how)
            return kept
    state.remove_lease(path, how)
    return None


def find_restart_lease(state: State, lease: Lease, processes: Processes) -> Lease | None:
    """Return the lease that keeps the GPUs of an ended container for a moment, at most until its time limit.

    None if its engine does not restart it, if its time is over, or if it is unknown how long GPUs are kept.
    """
    grace = 0 if state.is_rootless else _find_grace(state)
    if not grace:
        return None
    first = processes.find(FIRST_PROCESS)
    now = processes.now()
    until = kind_of(lease).kept_until(now + grace)
    may_be_kept = until > now and lease.boot_id == processes.boot_id and first
    kept_at, unit = _find_restart(lease) if may_be_kept else ("", "")
    if not kept_at:
        return None
    return lease.replace(creator=first, init=None, pid_file="", cgroup="", until=until, bundle=kept_at, unit=unit)


def drop_restart_leases(state: State, living: Sequence[Lease]) -> tuple[Lease, ...]:
    """Return leases without those kept for this process's unit, which is restarting its container."""
    unit = own_unit()
    own = [lease for lease in living if unit and lease.unit == unit]
    for lease in own:
        state.remove_lease(state.lease_path(lease.key))
    return tuple(lease for lease in living if lease not in own)


def _find_grace(state: State) -> int:
    try:
        return state.read_policy().restart_grace
    except StateError:
        return 0


def _find_restart(lease: Lease) -> tuple[str, str]:
    """Return a path that exists as long as a container may be restarted, and the unit that restarts it.

    The first is "" for a container that is not restarted, the second if its engine restarts it.
    """
    spec = read_of_root(f"{lease.bundle}/config.json")
    if docker := docker_directory(spec, lease.container_id):
        return (docker, "") if _docker_restarts(docker) else ("", "")
    if _podman_restarts(spec, lease):
        return lease.bundle, ""
    # Quadlet puts the cgroup of a container below that of its unit.
    unit = unit_of(str(as_object(as_object(spec).get("linux")).get("cgroupsPath", "")))
    path = find_restarting_unit(unit) if unit else ""
    return path, unit if path else ""


def _docker_restarts(directory: str) -> bool:
    policy = as_object(as_object(read_of_root(f"{directory}/hostconfig.json")).get("RestartPolicy"))
    if policy.get("Name") not in POLICIES:
        return False
    state = as_object(as_object(read_of_root(f"{directory}/config.v2.json")).get("State"))
    return not str(state.get("StartedAt", NEVER)).startswith(NEVER)


def _podman_restarts(spec: Any, lease: Lease) -> bool:
    annotations = as_object(as_object(spec).get("annotations"))
    storage, name = os.path.split(os.path.dirname(os.path.dirname(lease.bundle)))
    # For containers that stay, Podman 4 writes FALSE, and Podman 5 nothing.
    if annotations.get(AUTOREMOVE, "FALSE") != "FALSE" or not name.endswith("-containers"):
        return False
    return any(_policy_in_sqlite(f"{storage}/{path}", lease.container_id) in POLICIES for path in SQLITE) or (
        _policy_in_bolt(f"{storage}/{BOLT}", lease.container_id) in POLICIES
    )


def _policy_in_sqlite(path: str, container_id: str) -> str:
    if not os.path.isfile(path):
        return ""
    import json
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    try:
        # Do not wait for Podman's lock: this row of a container never changes while the container ends.
        with closing(sqlite3.connect(f"file:{quote(path)}?immutable=1", uri=True)) as database:
            row = database.execute("SELECT JSON FROM ContainerConfig WHERE ID = ?", (container_id,)).fetchone()
        return str(as_object(json.loads(row[0])).get("restart_policy", "")) if row else ""
    except (sqlite3.Error, RecursionError, TypeError, ValueError):
        return ""


def _policy_in_bolt(path: str, container_id: str) -> str:
    """Return the policy after the id in the JSON of a container, which bolt writes in one piece."""
    try:
        content = read_plain_file(path, largest=LARGEST_BOLT)[0]
    except OSError:
        return ""
    # Any copy will do, because the policy never changes.
    behind = content.partition(f'"id":"{container_id}","name":'.encode())[2].partition(b'{"spec":')[0]
    return behind.partition(b'"restart_policy":"')[2].partition(b'"')[0].decode(errors="replace")
