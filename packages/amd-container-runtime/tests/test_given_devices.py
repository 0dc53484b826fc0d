"""GPUs that the engine gave by itself, before the runtime was called, are tracked with the way by which they came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_gpu_tracker.claims.hook_entries import claim_hook
from amd_gpu_tracker.face.tracker import Tracker

RENDER_NODE = {"path": "/dev/dri/renderD130", "type": "c", "major": 226, "minor": 130}
FOREIGN_HOOK = {"path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "claim"]}


@pytest.mark.parametrize(
    ("foreign", "has_claim_hook", "way"),
    [([], False, "device"), ([FOREIGN_HOOK], False, "device"), ([FOREIGN_HOOK], True, "cdi")],
    ids=["--device /dev/dri/...", "beside another vendor's CDI device", "--device amd.com/gpu=0"],
)
def test_a_cdi_device_is_distinguished_from_a_plain_one(runtime, foreign, has_claim_hook, way):
    Tracker(runtime.host).enable()
    hooks = [*foreign, *([claim_hook(runtime.host)] if has_claim_hook else [])]
    runtime.write_config(linux={"devices": [RENDER_NODE]}, hooks={"createRuntime": hooks})

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    (lease,) = Path(runtime.host.path("/run/amd-container-toolkit/leases")).iterdir()
    fields = json.loads(lease.read_bytes())
    assert (fields["gpus"], fields["ways"]) == (["0000:03:00.0/0"], [way])
