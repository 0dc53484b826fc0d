"""What tests of several commands use."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.answering_docker import Node


@pytest.fixture
def node(host, amd_ctk, tmp_path: Path) -> Node:
    """Return a node of four MI210 without an engine."""
    return Node(host(), tmp_path / "bin", amd_ctk)
