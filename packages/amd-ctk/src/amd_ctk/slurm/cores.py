"""The cores near a GPU, as Slurm counts them: by socket, by NUMA node, by their first processor, from 0."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"


def cores_near(host: Host, numa_node: int | None) -> str:
    """Return the cores of a NUMA node (`0-15`), "" where the kernel does not say."""
    if numa_node is None:
        return ""
    near = parse_cpu_list(host.read_attribute(f"{NODES}/node{numa_node}/cpulist"))
    cores = [position for position, core in enumerate(_cores(host)) if core in near]
    return format_ranges(cores)


def parse_cpu_list(text: str) -> list[int]:
    """Return the numbers in `0-3,8`, [] for anything else."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def format_ranges(numbers: list[int]) -> str:
    """Return ascending numbers as Slurm writes them: 0-3,8."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)


def _cores(host: Host) -> list[int]:
    """Return the first processor of each core, in the order in which Slurm counts cores."""
    cores: dict[int, tuple[int, int]] = {}
    for node in _numa_nodes(host):
        for cpu in parse_cpu_list(host.read_attribute(f"{NODES}/node{node}/cpulist")):
            siblings = parse_cpu_list(host.read_attribute(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list"))
            package = host.read_attribute(f"{CPUS}/cpu{cpu}/topology/physical_package_id")
            cores.setdefault(min(siblings, default=cpu), (int(package) if package.isdecimal() else 0, node))
    return sorted(cores, key=lambda cpu: (*cores[cpu], cpu))


def _numa_nodes(host: Host) -> list[int]:
    names = (name.removeprefix("node") for name in host.names(NODES) if name.startswith("node"))
    return sorted(int(name) for name in names if name.isdecimal())
