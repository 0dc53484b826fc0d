"""What gres.conf and slurm.conf say of a node's GPUs, in the order of their numbers."""

from __future__ import annotations

from amd_ctk.slurm.cores import cores_near
from amd_ctk.slurm.links import links_of
from amdgpu_discovery.models import model_of
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

# Slurm then sets ROCR_VISIBLE_DEVICES, and not what other vendors' programs read too.
FLAGS = "amd_gpu_env"


class Gres(Value):
    """A line of gres.conf: one GPU."""

    number: int
    type: str
    file: str
    cores: str
    links: str


def build_gres(host: Host, gpus: Sequence[Gpu], model: str = "") -> list[Gres]:
    """Return a line for each GPU; those of one type stand together, as Slurm puts them anyway.

    `model` is the type of all of them, "" for that of each.
    """
    ordered = sort_by_type(gpus, model)
    links = links_of(host, ordered)
    return [
        Gres(
            number=gpu.number,
            type=type_of(gpu, model),
            file=gpu.render_path,
            cores=cores_near(host, gpu.numa_node),
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
    return "\n".join(
        [
            "# In slurm.conf, beside what describes the node otherwise:",
            "#GresTypes=gpu",
            f"#NodeName={node} Gres={format_node_gres(lines)}",
            *(_format_line(line, node) for line in lines),
        ]
    )


def format_node_gres(lines: Sequence[Gres]) -> str:
    """Return what a node has as slurm.conf says it: gpu:mi210:4."""
    types = [line.type for line in lines]
    return ",".join(f"gpu:{kind}:{types.count(kind)}" for kind in dict.fromkeys(types))


def _format_line(line: Gres, node: str) -> str:
    words = [f"NodeName={node}", "Name=gpu", f"Type={line.type}", f"File={line.file}"]
    words += [f"Cores={line.cores}"] if line.cores else []
    words += [f"Links={line.links}"] if line.links else []
    return " ".join([*words, f"Flags={FLAGS}"])
