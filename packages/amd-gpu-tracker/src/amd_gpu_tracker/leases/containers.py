"""Finds the container of a process, by its cgroup (cgroups(7), /proc/PID/cgroup), or by the lease that names it.

Engines name the cgroup of a container after its id. The outermost container counts, because the engine of the host
knows that one, unless the tracker knows another one by its id.

A job that has reserved GPUs is in the cgroup of a login, of a service or of Slurm: no cgroup is named after it.
"""

from __future__ import annotations

import re

from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.leases.user_leases import UserProcesses
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.usage.owners import read_cgroups, read_real_uid
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from amd_gpu_tracker.book.lease import ProcessId
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.leases.status import ContainerUse, OwnedLease

    # Id of a container, and the uid of its user; None for root and for the caller.
    Owner = tuple[str, int | None]


# What is before the id in names that engines' systemd drivers make, or above it with cgroupfs drivers.
ENGINES = {
    "docker": "docker",
    "libpod": "podman",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "kubepods": "kubernetes",
    "libpod_parent": "podman",
}
FULL_ID = re.compile(r"(?:(?P<engine>[a-z_-]+)-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")
# Slurm 22.05 and later use slurmstepd.scope, earlier versions slurm/uid_N (slurm.conf(5), cgroup.conf(5)).
SLURM_JOB = re.compile(r"/(?:slurmstepd\.scope|slurm(?:_[^/]*)?(?:/uid_[0-9]+)?)/job_(?P<id>[0-9]{1,10})(?:/|$)")
# Below it, systemd lets a user make cgroups with any names (systemd.resource-control(5), Delegate=).
USER_SERVICE = re.compile(r"/user@(?P<uid>[0-9]{1,10})\.service(?:/|$)", re.MULTILINE)
# Limit for ids that no engine made; a cgroup's name has 255 bytes at most.
LONGEST_FOREIGN_ID = 128
# LXC, and systemd-nspawn through systemd-machined.
OTHERS = (("lxc", re.compile(r"lxc\.payload\.(?P<id>[^/]+)")), ("nspawn", re.compile(r"machine-(?P<id>[^/]+)\.scope")))
# Slurm and systemd-machined make no cgroups below the service of a user.
ENGINES_OF_USERS = ("docker", "podman", "containerd")
# Shells and launchers between a job and its processes. Processes further below count by their cgroup.
MOST_GENERATIONS = 64


class ContainerOfProcess(Value):
    """The container, or the job, in which a process is.

    Attributes:
        container_id: Id of the container, name of the machine, or `job-7`.
        engine: Its maker: `docker`, `podman`, `containerd`, `cri-o`, `kubernetes`, `slurm`, `lxc`, `nspawn`; "" if
            unknown.
        user: Uid of the user below whose service the cgroup is, so that it may have any name; None elsewhere.
    """

    container_id: str
    engine: str
    user: int | None = None

    @property
    def owner(self) -> Owner:
        """Return what identifies it."""
        return self.container_id, self.user


def find_container(proc: str, pid: int, known_ids: Container[str]) -> ContainerOfProcess | None:
    """Return the container of a process, None if it is in none, or gone. `known_ids` are those that are tracked."""
    return parse_cgroup(read_cgroups(proc, pid), known_ids)


def parse_cgroup(content: str, known_ids: Container[str]) -> ContainerOfProcess | None:
    """Return the container that the cgroups of a process name."""
    paths = [line.split(":", 2)[-1] for line in content.split("\n") if line.count(":") >= 2]
    ways = (lambda path: _tracked(path, known_ids), _by_id, _by_name, _job)
    found = (way(path) for way in ways for path in paths)
    return next((container for container in found if container), None)


def _tracked(path: str, known_ids: Container[str]) -> ContainerOfProcess | None:
    for above, name in _names(path):
        # A name may itself have the hyphen that follows the engine's name.
        cuts = [position + 1 for position, sign in enumerate(name) if sign == "-"]
        container_id = next((name[cut:] for cut in (0, *cuts) if name[cut:] in known_ids), "")
        if container_id:
            engine = name.removesuffix(container_id).rstrip("-") or above.rpartition("/")[2]
            return _container(container_id, ENGINES.get(engine, ""), above)
    return None


def _by_id(path: str) -> ContainerOfProcess | None:
    for above, name in _names(path):
        match = FULL_ID.fullmatch(name)
        # Podman's monitor of a container is not in that container.
        if match and match["engine"] != "libpod-conmon":
            engine = match["engine"] or ("kubepods" if "/kubepods" in path else above.rpartition("/")[2])
            return _container(match["id"], ENGINES.get(engine, ""), above)
    return None


def _by_name(path: str) -> ContainerOfProcess | None:
    found = ((engine, pattern.search(path)) for engine, pattern in OTHERS)
    named = (
        (engine, printable(match["id"][:LONGEST_FOREIGN_ID]), path[: match.start()]) for engine, match in found if match
    )
    return next((_container(container_id, engine, above) for engine, container_id, above in named), None)


def _job(path: str) -> ContainerOfProcess | None:
    match = SLURM_JOB.search(path)
    return _container(f"job-{match['id']}", "slurm", path[: match.start()]) if match else None


def _container(container_id: str, engine: str, above: str) -> ContainerOfProcess:
    """Return the container whose cgroup is below the path `above`."""
    service = USER_SERVICE.search(above)
    return ContainerOfProcess(container_id=container_id, engine=engine, user=int(service["uid"]) if service else None)


def _names(path: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a path from the top, each without its unit type and with the path above it."""
    above = ""
    for name in path.removeprefix("/").split("/"):
        yield above, name.removesuffix(".scope")
        above = f"{above}/{name}"


def uses_by_owner(*uses: Iterable[ContainerUse]) -> dict[Owner, ContainerUse]:
    """Return the first use of each container; users choose the ids of theirs, so an id alone identifies nothing."""
    found: dict[Owner, ContainerUse] = {}
    for use in (each for group in uses for each in group):
        found.setdefault((use.container_id, use.user), use)
    return found


def trusted_container(
    container: ContainerOfProcess, uses: Mapping[Owner, ContainerUse], *, me: int | None
) -> ContainerOfProcess | None:
    """Return the container that the name of a cgroup stands for, None if the name is not credible.

    `me` is the user who looks, and whose own containers count like those of root; None for root.
    """
    if container.user in (0, me, None):
        owner = _owner_of(container.container_id, uses)
        return container.replace(user=owner)
    is_known = (container.container_id, container.user) in uses
    if container.engine in ENGINES_OF_USERS:
        return container
    return container.replace(engine="") if is_known else None


def _owner_of(container_id: str, uses: Mapping[Owner, ContainerUse]) -> int | None:
    """Return the user with the lease of a container outside of users' services: a user may run engines elsewhere."""
    users = [user for each, user in uses if each == container_id and user is not None]
    return None if (container_id, None) in uses else min(users, default=None)


def find_process_user(proc: str, pid: int) -> int | None:
    """Return the user below whose service a process is, else its real uid; None if unknown."""
    service = USER_SERVICE.search(read_cgroups(proc, pid))
    return int(service["uid"]) if service else read_real_uid(proc, pid)


def find_holders(leases: Iterable[OwnedLease], processes: Processes, pids: Iterable[int]) -> dict[int, Owner]:
    """Return the owner of the lease of each process: of its own lease, or of the nearest process above it that has one.

    If two of `leases` name the same process, the first counts.
    """
    wanted = list(pids)
    owners = _owners_by_process(leases, processes) if wanted else {}
    above = {pid: processes.ancestors(pid, MOST_GENERATIONS) for pid in (wanted if owners else ())}
    nearest = {pid: next((each for each in found if each in owners), None) for pid, found in above.items()}
    return {pid: owners[process] for pid, process in nearest.items() if process}


def processes_by_owner(leases: Iterable[OwnedLease], processes: Processes) -> dict[Owner, ProcessId]:
    """Return a process of each owner of a lease, without those whose process is unknown."""
    return {owner: process for process, owner in _owners_by_process(leases, processes).items()}


def _owners_by_process(leases: Iterable[OwnedLease], processes: Processes) -> dict[ProcessId, Owner]:
    found: dict[ProcessId, Owner] = {}
    for lease, uid in leases:
        process = kind_of(lease).process
        if not process or lease.namespace != processes.namespace:
            continue
        # A user can write a foreign process into a lease, and another process may have proved the lease.
        if uid is None or UserProcesses(uid, processes).has(process.pid):
            found.setdefault(process, (lease.container_id, uid))
    return found
