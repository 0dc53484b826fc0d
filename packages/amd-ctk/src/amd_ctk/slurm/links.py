"""Which GPUs reach each other by a wire of their own, as KFD says (kfd_crat.h)."""

from __future__ import annotations

from amdgpu_discovery.kfd_topology import TOPOLOGY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

XGMI = 11
# One hop; a way through another GPU weighs more (KFD_CRAT_XGMI_WEIGHT).
ONE_HOP = 15


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
    links = (_read(host, f"{directory}/{name}/properties") for name in host.names(directory))
    return {link["node_to"] for link in links if link.get("type") == XGMI and link.get("weight", 0) <= ONE_HOP}


def _read(host: Host, path: str) -> dict[str, int]:
    words = [line.split() for line in host.read_attribute(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}
