"""A host of which thousands of questions are asked."""

from __future__ import annotations

import pytest

from amdgpu_simulator import load_profile


@pytest.fixture
def sleeping_host(host):
    """Return four MI210 that sleep, so that nobody forks to ask how they are: that takes longer than all else."""
    profile = load_profile("mi210-4")
    for position in range(len(profile.gpus)):
        profile = profile.with_gpu(position, health={"power/runtime_status": "suspended"})
    return host(profile)
