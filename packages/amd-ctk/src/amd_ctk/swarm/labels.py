"""Labels that tell a swarm what GPUs a node has, for `--constraint node.labels.amd.gpu.model==MI210`."""

from __future__ import annotations

import os

from amd_ctk.swarm.resources import vram_mb_of
from amdgpu_discovery.driver_versions import DRIVER_VERSION
from amdgpu_discovery.models import model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

PREFIX = "amd.gpu."
NAMES = ("model", "gfx", "count", "vram-mb", "driver")


def read_driver(host: Host) -> str:
    """Return the version of the amdgpu driver; the kernel's own has that of the kernel, "" where it is unknown."""
    return host.read_attribute(DRIVER_VERSION) or (os.uname().release if host.is_this_machine else "")


def read_node_name(host: Host) -> str:
    """Return what the swarm most likely calls this node: Docker takes the name of the host."""
    return host.read_attribute("/etc/hostname") or os.uname().nodename


def build_labels(gpus: Sequence[Gpu], driver: str) -> dict[str, str]:
    """Return the labels of a node with these GPUs; where they differ, their values are joined by a plus."""
    labels = {
        "model": _join(model_of(gpu) for gpu in gpus),
        "gfx": _join(gpu.gfx_target for gpu in gpus),
        "count": str(len(gpus)),
        "vram-mb": _join(str(vram_mb_of(gpu)) for gpu in gpus),
        "driver": driver,
    }
    return {f"{PREFIX}{name}": value for name, value in labels.items() if value}


def label_command(labels: Mapping[str, str], node: str) -> list[str]:
    """Return the command that labels a node, to be run on a manager."""
    options = [word for name, value in labels.items() for word in ("--label-add", f"{name}={value}")]
    return ["docker", "node", "update", *options, node]


def unlabel_command(node: str) -> list[str]:
    """Return the command that removes what `label_command` added, to be run on a manager."""
    options = [word for name in NAMES for word in ("--label-rm", f"{PREFIX}{name}")]
    return ["docker", "node", "update", *options, node]


def _join(values: Iterable[str]) -> str:
    # What a constraint may compare with has no comma.
    return "+".join(dict.fromkeys(values))
