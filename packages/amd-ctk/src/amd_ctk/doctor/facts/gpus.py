"""The GPUs of a host, the device nodes that lead to them, and which GPUs are sick, suspect, lost or drained."""

from __future__ import annotations

import errno
import grp
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from shlex import quote

from amd_ctk.doctor.facts import read_or
from amd_ctk.gpus.listing import tracker_with_rules
from amd_gpu_tracker import GpuState
from amdgpu_discovery.discover import find_gpus, find_processors, find_unnumbered_gpus
from amdgpu_discovery.driver.device_nodes import KFD_PATH, find_device_nodes, read_kfd_number
from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES, DRM_MAJOR
from amdgpu_discovery.driver.kfd_topology import TOPOLOGY, parse_number
from amdgpu_discovery.driver.other_drivers import ForeignGpu, find_foreign_gpus, find_left_over, find_pci_functions
from amdgpu_discovery.errors import DeviceNodeError, DriverUnavailable, GpusHidden, ToolkitError, reason
from amdgpu_discovery.gpu import DeviceNode, Gpu, UnnumberedGpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

DRI = "/dev/dri"
EVERYBODY = 0o006
GROUP = 0o060
KFD_NODES = f"{TOPOLOGY}/nodes"
# The command that makes udev create nodes.
TRIGGER = "sudo udevadm trigger --action=add --subsystem-match=drm --subsystem-match=kfd"
# Attributes that a working GPU has. On a GPU that is being reset or is lost, reading them fails.
VRAM_SIZE = "mem_info_vram_total"
ATTRIBUTES = (VRAM_SIZE, "vendor", "unique_id")


class NodeProblem(Value):
    """A device node that is missing or wrong; `message` is that of a container start that needs the node."""

    is_partition: bool
    path: str
    is_missing: bool
    is_left_over: bool
    message: str
    is_directory: bool = False

    @property
    def fix(self) -> str:
        """Return the command that makes the node."""
        if self.is_directory:
            return f"sudo rmdir {quote(self.path)} && {TRIGGER}"
        return f"sudo rm {quote(self.path)} && {TRIGGER}" if self.is_left_over else TRIGGER


class GpuFacts(Value):
    """The GPUs that discovery finds; `problem` is why it failed, "" if it did not fail or if there is no driver."""

    gpus: tuple[Gpu, ...] = ()
    unnumbered: tuple[UnnumberedGpu, ...] = ()
    # How many GPUs the device cgroup of this process hides; 1 if it hides all.
    hidden: int = 0
    problem: str = ""
    # A file or directory of KFD that this user may not read; a denial by the device cgroup does not count.
    closed_kfd: str = ""
    nodes: tuple[DeviceNode, ...] = ()
    node_problems: tuple[NodeProblem, ...] = ()
    # PCI addresses of AMD's GPUs, with any driver or none.
    pci_functions: tuple[str, ...] = ()
    # Those that amdgpu does not have.
    foreign: tuple[ForeignGpu, ...] = ()
    # PCI addresses of GPUs that are gone, and that KFD still lists.
    left_over: tuple[str, ...] = ()
    # Whether the kernel has a compute driver.
    has_kfd: bool = True
    # "0000:03:00.0: mem_info_vram_total: ..." for attributes that cannot be read.
    broken_attributes: tuple[str, ...] = ()
    # Bytes of video memory by GPU number, from the PCI function; on an APU, what the firmware has set aside.
    carve_outs: dict[int, int] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # The directory of the render nodes if not every user may enter it.
    closed_directory: str = ""
    # How many of KFD's nodes are processors.
    processors: int = 1
    # Names of the nodes' groups by number.
    group_names: dict[int, str] = {}  # noqa: RUF012 - a default of a value, which is never changed

    @property
    def compute_nodes(self) -> list[DeviceNode]:
        """Return the nodes that ROCm opens; card nodes are for displays."""
        return [node for node in self.nodes if not node.path.startswith("/dev/dri/card")]

    @property
    def closed_nodes(self) -> list[DeviceNode]:
        """Return the compute nodes that not every user may open."""
        return [node for node in self.compute_nodes if node.mode & EVERYBODY != EVERYBODY]

    @property
    def cards(self) -> list[int]:
        """Return the numbers of the GPUs that are not integrated."""
        return [gpu.number for gpu in self.gpus if not gpu.is_apu]

    @property
    def cards_fix(self) -> str:
        """Return how to give a container these GPUs and no integrated GPU."""
        return f"ask for the cards: AMD_VISIBLE_DEVICES={','.join(map(str, self.cards))}"


def read_gpus(host: Host) -> GpuFacts:
    """Return the facts about GPUs; a host that discovery does not understand is a fact too."""
    gpus, hidden, problem = _find(host)
    directory = host.stat(DRI)
    sizes = {gpu.number: host.read_attribute(f"{AMDGPU_PCI_DEVICES}/{gpu.pci_address}/{VRAM_SIZE}") for gpu in gpus}
    problems: list[NodeProblem] = []
    nodes = list(dict.fromkeys(_find_nodes(host, gpus, problems)))
    return GpuFacts(
        gpus=tuple(gpus),
        unnumbered=read_or(lambda: tuple(find_unnumbered_gpus(host)), ()),
        hidden=hidden,
        problem=problem,
        closed_kfd=_find_closed(host),
        nodes=tuple(nodes),
        node_problems=tuple(problems),
        pci_functions=tuple(find_pci_functions(host)),
        foreign=tuple(find_foreign_gpus(host)),
        left_over=read_or(lambda: tuple(map(str, find_left_over(host))), ()),
        has_kfd=host.stat(TOPOLOGY) is not None,
        broken_attributes=tuple(_broken_attributes(host)),
        carve_outs={number: size for number, text in sizes.items() if (size := parse_number(text)) is not None},
        closed_directory=DRI if directory and not directory.st_mode & stat.S_IXOTH else "",
        processors=read_or(lambda: find_processors(host, gpus), 1),
        # A simulated host has the group numbers of another machine.
        group_names=dict(_name_groups(nodes)) if host.is_this_machine else {},
    )


def _find(host: Host) -> tuple[list[Gpu], int, str]:
    try:
        gpus = find_gpus(host)
    except DriverUnavailable:
        return [], 0, ""
    except GpusHidden as error:
        return [], 1, error.message
    except ToolkitError as error:
        return [], 0, error.message
    return gpus, gpus[0].host_total - len(gpus) if gpus else 0, ""


def _find_closed(host: Host) -> str:
    try:
        names = os.listdir(host.path(KFD_NODES))
    except OSError as error:
        # The device cgroup denies with EPERM.
        return KFD_NODES if error.errno == errno.EACCES else ""
    paths = [f"{KFD_NODES}/{name}/properties" for name in sorted(names)]
    found = zip(paths, host.read_each(paths), strict=True)
    return next((path for path, content in found if getattr(content, "errno", 0) == errno.EACCES), "")


def _find_nodes(host: Host, gpus: Sequence[Gpu], problems: list[NodeProblem]) -> Iterator[DeviceNode]:
    for gpu in gpus:
        try:
            yield from find_device_nodes(host, [gpu])
        except DeviceNodeError as error:
            problems.append(
                NodeProblem(
                    is_partition=gpu.partition_total > 1,
                    path=error.path,
                    is_missing=error.is_missing,
                    is_left_over=error.is_left_over,
                    is_directory=error.is_directory,
                    message=error.message,
                )
            )
            # The nodes that exist may have other faults.
            yield from _find_present(host, gpu)


def _find_present(host: Host, gpu: Gpu) -> Iterator[DeviceNode]:
    """Yield the render node and /dev/kfd, if they exist, with the driver's numbers."""
    numbers = {gpu.render_path: (DRM_MAJOR, gpu.render_minor)}
    if kfd := read_kfd_number(host):
        numbers[KFD_PATH] = kfd
    for path, (major, minor) in numbers.items():
        found = host.stat(path)
        if found and not stat.S_ISDIR(found.st_mode):
            mode = stat.S_IMODE(found.st_mode)
            yield DeviceNode(path=path, major=major, minor=minor, mode=mode, uid=found.st_uid, gid=found.st_gid)


def _name_groups(nodes: Sequence[DeviceNode]) -> Iterator[tuple[int, str]]:
    for gid in {node.gid for node in nodes}:
        with suppress(KeyError):
            yield gid, grp.getgrgid(gid).gr_name


def _broken_attributes(host: Host) -> Iterator[str]:
    for address in sorted(name for name in host.names(AMDGPU_PCI_DEVICES) if ":" in name):
        for attribute in ATTRIBUTES:
            try:
                host.read(f"{AMDGPU_PCI_DEVICES}/{address}/{attribute}")
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                yield f"{address}: {attribute}: {reason(error)}"


class GpuCondition(Value):
    """A GPU in a state that keeps containers from it, or may do so, and the reason. A drained GPU may be sick.

    It `has_leaked` if no process holds its memory. `address` is its PCI address if commands refuse its number, because
    another GPU was lost; else "".
    """

    number: int
    state: str
    reason: str
    is_sick: bool = False
    has_leaked: bool = False
    address: str = ""


def read_conditions(host: Host) -> tuple[GpuCondition, ...]:
    """Return the GPUs that are not as usual; none if that is unknown, which other checks report. This forks."""
    states: Sequence[GpuState] = read_or(lambda: tracker_with_rules(host).states(), ())
    return tuple(
        GpuCondition(
            number=gpu.number,
            address=str(gpu.pci_address) if gpu.has_moved else "",
            state=gpu.state,
            reason=gpu.reason,
            is_sick=gpu.SICK in (gpu.state, gpu.health.verdict),
            has_leaked=gpu.has_leaked,
        )
        for gpu in states
        if gpu.trouble
    )
