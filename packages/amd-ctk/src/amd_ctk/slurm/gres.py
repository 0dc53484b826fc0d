"""Build the lines of gres.conf and slurm.conf for a node's GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from amdgpu_discovery.driver.kfd_topology import TOPOLOGY, read_property
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.value import Value

NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"
XGMI = 11
# One hop; a path through another GPU weighs more (KFD_CRAT_XGMI_WEIGHT).
ONE_HOP = 15
# Makes Slurm set ROCR_VISIBLE_DEVICES, but none of the variables that other vendors' programs read.
FLAGS = "amd_gpu_env"


def read_cores(host: Host) -> dict[int | None, str]:
    """Return the cores of each NUMA node as Slurm counts them (`0-15`)."""
    # The first processor of each core, with its package and its NUMA node.
    places: dict[int, tuple[int, int]] = {}
    nodes = _numa_nodes(host)
    for node in nodes:
        for cpu in parse_cpu_list(host.read_attribute(f"{NODES}/node{node}/cpulist")):
            siblings = parse_cpu_list(host.read_attribute(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list"))
            package = host.read_attribute(f"{CPUS}/cpu{cpu}/topology/physical_package_id")
            places.setdefault(min(siblings, default=cpu), (int(package) if package.isdecimal() else 0, node))
    order = sorted(places, key=lambda cpu: (*places[cpu], cpu))
    return {
        node: format_ranges([position for position, cpu in enumerate(order) if places[cpu][1] == node])
        for node in nodes
    }


def parse_cpu_list(text: str) -> list[int]:
    """Parse numbers such as `0-3,8`; [] for anything else."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def format_ranges(numbers: list[int]) -> str:
    """Format ascending numbers in Slurm's syntax: 0-3,8."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)


def _numa_nodes(host: Host) -> list[int]:
    names = (name.removeprefix("node") for name in host.names(NODES) if name.startswith("node"))
    return sorted(int(name) for name in names if name.isdecimal())


def links_of(host: Host, gpus: Sequence[Gpu]) -> dict[int, str]:
    """Return `Links` by GPU number: 1 for a direct XGMI peer in `gpus`, 0 for none, -1 for itself; {} without XGMI."""
    peers = {gpu.number: _direct_peers(host, gpu.kfd_node) for gpu in gpus}
    if not any(other.kfd_node in peers[gpu.number] for gpu in gpus for other in gpus):
        return {}
    return {
        gpu.number: ",".join(
            "-1" if other.number == gpu.number else str(int(other.kfd_node in peers[gpu.number])) for other in gpus
        )
        for gpu in gpus
    }


def _direct_peers(host: Host, node: int) -> set[int]:
    """Return the KFD nodes that a KFD node reaches by one hop of XGMI, or inside its package."""
    directory = f"{TOPOLOGY}/nodes/{node}/io_links"
    links = [f"\n{host.read_attribute(f'{directory}/{name}/properties')}\n" for name in host.names(directory)]
    near = [link for link in links if read_property(link, "weight") <= ONE_HOP]
    return {read_property(link, "node_to") for link in near if read_property(link, "type") == XGMI}


class Gres(Value):
    """A line of gres.conf, for one GPU."""

    type: str
    file: str
    cores: str
    links: str


def build_gres(host: Host, gpus: Sequence[Gpu], model: str = "") -> list[Gres]:
    """Return a line for each GPU. GPUs of one type are adjacent, because Slurm sorts them so anyway.

    `model` replaces the type of every GPU; "" keeps their own.
    """
    ordered = sort_by_type(gpus, model)
    links = links_of(host, ordered)
    cores = read_cores(host)
    return [
        Gres(
            type=type_of(gpu, model),
            file=gpu.render_path,
            cores=cores.get(gpu.numa_node, ""),
            links=links.get(gpu.number, ""),
        )
        for gpu in ordered
    ]


def type_of(gpu: Gpu, model: str = "") -> str:
    """Return the type by which jobs request a GPU: mi210, gfx1100."""
    return model or model_of(gpu).lower()


def sort_by_type(gpus: Sequence[Gpu], model: str = "") -> list[Gpu]:
    """Return GPUs in the order of their numbers, grouped by type; the type of the first GPU comes first."""
    types = list(dict.fromkeys(type_of(gpu, model) for gpu in gpus))
    return sorted(gpus, key=lambda gpu: types.index(type_of(gpu, model)))


def format_gres_conf(lines: Sequence[Gres], node: str) -> str:
    """Return the text of gres.conf, with the lines for slurm.conf in comments."""
    types = [line.type for line in lines]
    of_node = ",".join(f"gpu:{kind}:{types.count(kind)}" for kind in dict.fromkeys(types))
    return "\n".join(
        [
            "# In slurm.conf, beside the node's other settings:",
            "#GresTypes=gpu",
            f"#NodeName={node} Gres={of_node}",
            *(_format_line(line, node) for line in lines),
        ]
    )


def _format_line(line: Gres, node: str) -> str:
    words = [f"NodeName={node}", "Name=gpu", f"Type={line.type}", f"File={line.file}"]
    words += [f"Cores={line.cores}"] if line.cores else []
    words += [f"Links={line.links}"] if line.links else []
    return " ".join([*words, f"Flags={FLAGS}"])
