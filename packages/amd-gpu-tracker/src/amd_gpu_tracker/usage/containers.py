"""Tell in which container a process is, by its cgroup (cgroups(7), /proc/PID/cgroup).

Engines name the cgroup of a container after its id. The outermost container counts, which is the one that the engine
of the host knows, unless the tracker knows another one by its id.
"""

from __future__ import annotations

import re

from amdgpu_discovery.files import read_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

# One line for each hierarchy; a path has 4096 bytes at most.
LARGEST_CGROUP = 65536
# What stands before the id in a name that the systemd drivers of engines make, or above it in that of cgroupfs drivers.
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
# Slurm 22.05 and later below slurmstepd.scope, earlier ones below slurm/uid_N (slurm.conf(5), cgroup.conf(5)).
SLURM_JOB = re.compile(r"/(?:slurmstepd\.scope|slurm(?:_[^/]*)?(?:/uid_[0-9]+)?)/job_(?P<id>[0-9]{1,10})(?:/|$)")
# LXC, and systemd-nspawn by systemd-machined.
OTHERS = (("lxc", re.compile(r"lxc\.payload\.(?P<id>[^/]+)")), ("nspawn", re.compile(r"machine-(?P<id>[^/]+)\.scope")))


class ContainerOfProcess(Value):
    """The container, or the job, in which a process is.

    Attributes:
        container_id: Id of the container, name of the machine, or `job-7`.
        engine: Who made it: `docker`, `podman`, `containerd`, `cri-o`, `kubernetes`, `slurm`, `lxc`, `nspawn`; "" where
            that cannot be told.
    """

    container_id: str
    engine: str


def find_container(proc: str, pid: int, known_ids: Container[str]) -> ContainerOfProcess | None:
    """Return the container of a process, None where it is in none or gone. `known_ids` are those that are tracked."""
    try:
        content = read_file(f"{proc}/{pid}/cgroup", largest=LARGEST_CGROUP)
    except OSError:
        return None
    return parse_cgroup(content.decode("utf-8", "replace"), known_ids)


def parse_cgroup(content: str, known_ids: Container[str]) -> ContainerOfProcess | None:
    """Return the container that the cgroups of a process name."""
    paths = [line.split(":", 2)[-1] for line in content.split("\n") if line.count(":") >= 2]
    ways = (lambda path: _tracked(path, known_ids), _by_id, _by_name, _job)
    found = (way(path) for way in ways for path in paths)
    return next((container for container in found if container), None)


def _tracked(path: str, known_ids: Container[str]) -> ContainerOfProcess | None:
    for prefix, name in _names(path):
        # A name may itself have the sign that stands behind the engine's.
        cuts = [position + 1 for position, sign in enumerate(name) if sign == "-"]
        container_id = next((name[cut:] for cut in (0, *cuts) if name[cut:] in known_ids), "")
        if container_id:
            engine = name.removesuffix(container_id).rstrip("-") or prefix
            return ContainerOfProcess(container_id=container_id, engine=ENGINES.get(engine, ""))
    return None


def _by_id(path: str) -> ContainerOfProcess | None:
    for above, name in _names(path):
        match = FULL_ID.fullmatch(name)
        # The monitor of a container of Podman is not in it.
        if match and match["engine"] != "libpod-conmon":
            engine = match["engine"] or ("kubepods" if "/kubepods" in path else above)
            return ContainerOfProcess(container_id=match["id"], engine=ENGINES.get(engine, ""))
    return None


def _by_name(path: str) -> ContainerOfProcess | None:
    found = ((engine, pattern.search(path)) for engine, pattern in OTHERS)
    return next((ContainerOfProcess(container_id=match["id"], engine=engine) for engine, match in found if match), None)


def _job(path: str) -> ContainerOfProcess | None:
    match = SLURM_JOB.search(path)
    return ContainerOfProcess(container_id=f"job-{match['id']}", engine="slurm") if match else None


def _names(path: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a path from the top, each without its unit type and with the one above it."""
    above = ""
    for name in path.split("/"):
        yield above, name.removesuffix(".scope")
        above = name
