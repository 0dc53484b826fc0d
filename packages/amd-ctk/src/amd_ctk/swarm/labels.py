"""The labels of a node in its swarm: set and remove them on a manager, or print the command for a manager."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from amd_ctk.swarm.docker import docker, read_docker_info, read_labels
from amd_ctk.swarm.resources import (
    NAMES,
    PREFIX,
    SwarmError,
    build_labels,
    label_command,
    read_driver,
    read_node_name,
    unlabel_command,
)
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host


def require_manager() -> str:
    """Return the id of this node, which must be a manager to label nodes; SwarmError if it is none."""
    docker_info = read_docker_info()
    if not docker_info.is_manager:
        raise SwarmError(
            "this node is not a swarm manager, so it cannot label itself",
            hint="run without --labels, and run the printed command on a manager",
        )
    return docker_info.node_id


def remove_labels(host: Host, *, node_id: str) -> None:
    """Remove the labels of this node, or print the command for that if the id of the node is unknown."""
    if not node_id:
        command = shlex.join(unlabel_command(read_node_name(host)))
        print(f"To remove the labels of this node, run on a manager:\n{command}")
    elif {f"{PREFIX}{name}" for name in NAMES}.isdisjoint(read_labels(node_id)):
        print("This node has no labels of amd-ctk")
    else:
        docker(*unlabel_command(node_id)[1:])
        print("Removed the labels of this node")


def set_labels(host: Host, gpus: Sequence[Gpu], *, node_id: str) -> None:
    """Label this node, or print the command for that if the id of the node is unknown."""
    labels = build_labels(gpus, read_driver(host))
    if not node_id:
        print(f"To label this node, run on a manager:\n{shlex.join(label_command(labels, read_node_name(host)))}")
    # When a node is updated, Swarm restarts tasks that hold GPUs, even if the labels stay the same.
    elif labels.items() <= read_labels(node_id).items():
        print("The labels of this node are up to date")
    else:
        docker(*label_command(labels, node_id)[1:])
        print(f"Labelled this node: {' '.join(f'{name}={value}' for name, value in labels.items())}")
