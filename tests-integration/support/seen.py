"""Parse what a container sees: the lines of `list-gpus`, `try-nodes` and `try-numbers`."""

from __future__ import annotations

from typing import NamedTuple


class SeenNode(NamedTuple):
    """A device node as seen by a process in the container."""

    path: str
    numbers: str
    mode: str
    owner: str
    access: str


def parse_seen(text: str) -> list[SeenNode]:
    """Parse the output of these scripts; any other line is an error."""
    return [SeenNode(*line.split(" ")) for line in text.splitlines()]


def paths(nodes: list[SeenNode]) -> list[str]:
    return [node.path for node in nodes]
