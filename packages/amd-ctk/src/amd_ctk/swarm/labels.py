"""Labels that tell a swarm what GPUs a node has, for `--constraint node.labels.amd.gpu.model==MI210`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.resources import vram_mb_of
from amdgpu_discovery.driver_versions import DRIVER_VERSION
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.models import model_of

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


def constraint_for(targets: Sequence[str], chosen: str) -> str:
    """Return the constraint for one of an image's targets; SwarmError where it has several and none is chosen."""
    if chosen and targets and chosen not in targets:
        raise SwarmError(f"the image has no code for {chosen}, it has code for {' '.join(targets)}")
    if not (chosen or targets):
        raise SwarmError("the image has no code for a GPU, and does not say what it is for", hint="name one with --gfx")
    if not chosen and len(targets) > 1:
        # Docker joins constraints by and, and compares with == and != only.
        raise SwarmError(
            f"the image has code for {' '.join(targets)}, and a constraint names one label",
            hint="choose one with --gfx",
        )
    return f"node.labels.{PREFIX}gfx=={chosen or targets[0]}"
