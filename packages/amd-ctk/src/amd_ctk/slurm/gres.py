"""What gres.conf and slurm.conf say of a node's GPUs, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.kfd_topology import TOPOLOGY, read_property
from amdgpu_discovery.models import model_of
from amdgpu_discovery.value import Value

NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"
XGMI = 11
# One hop; a way through another GPU weighs more (KFD_CRAT_XGMI_WEIGHT).
ONE_HOP = 15
# Slurm then sets ROCR_VISIBLE_DEVICES, and not what other vendors' programs read too.
FLAGS = "amd_gpu_env"


def read_cores(host: Host) -> dict[int | None, str]:
    """Return by NUMA node its cores as Slurm counts them (`0-15`)."""
    # The first processor of each core, with its package and its node.
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


def _numa_nodes(host: Host) -> list[int]:
    names = (name.removeprefix("node") for name in host.names(NODES) if name.startswith("node"))
    return sorted(int(name) for name in names if name.isdecimal())


def links_of(host: Host, gpus: Sequence[Gpu]) -> dict[int, str]:
    """Return by number how many links a GPU has to each of `gpus`, -1 for itself; {} where there is no XGMI."""
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
    """Return the nodes that a node of KFD's reaches by one hop of XGMI, or inside its package."""
    directory = f"{TOPOLOGY}/nodes/{node}/io_links"
    links = [f"\n{host.read_attribute(f'{directory}/{name}/properties')}\n" for name in host.names(directory)]
    near = [link for link in links if read_property(link, "weight") <= ONE_HOP]
    return {read_property(link, "node_to") for link in near if read_property(link, "type") == XGMI}


class Gres(Value):
    """A line of gres.conf: one GPU."""

    type: str
    file: str
    cores: str
    links: str


def build_gres(host: Host, gpus: Sequence[Gpu], model: str = "") -> list[Gres]:
    """Return a line for each GPU; those of one type stand together, as Slurm puts them anyway.

    `model` is the type of all of them, "" for that of each.
    """
    ordered = sort_by_type(gpus, model)
    links, cores = links_of(host, ordered), read_cores(host)
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
    """Return the type by which jobs ask for a GPU: mi210, gfx1100."""
    return model or model_of(gpu).lower()


def sort_by_type(gpus: Sequence[Gpu], model: str = "") -> list[Gpu]:
    """Return GPUs by their numbers, those of one type together, the type of the first one first."""
    types = list(dict.fromkeys(type_of(gpu, model) for gpu in gpus))
    return sorted(gpus, key=lambda gpu: types.index(type_of(gpu, model)))


def format_gres_conf(lines: Sequence[Gres], node: str) -> str:
    """Return the text of gres.conf, in comments what slurm.conf needs."""
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
