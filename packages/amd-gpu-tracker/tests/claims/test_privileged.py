"""A privileged container without a GPU is written down, and is never refused."""

from __future__ import annotations

from amd_gpu_tracker import StartingContainer, claim_nodes

PRIVILEGED = {
    "process": {"args": ["sh"], "env": [], "capabilities": {"bounding": ["CAP_SYS_ADMIN"]}},
    "linux": {"devices": [], "resources": {"devices": [{"allow": True, "access": "rwm"}]}},
}


def test_a_privileged_container_that_asks_for_nothing_is_reserved_without_a_hook(exclusive_host):
    claim = claim_nodes(exclusive_host, StartingContainer(container_id="c1", spec=PRIVILEGED, bundle="/b"))

    assert claim.reserve() is True
    assert (claim.gpus, claim.poststop_hooks) == ((), [])
