"""The file of a proof, which goes to the maintainers."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from typing import Any

from amd_ctk.build import read_build
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.packages import OS_RELEASE
from amd_ctk.prove.answers import Proof
from amd_ctk.prove.engines import ProofEngine
from amdgpu_discovery.files import write_new_file
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.people import behind_sudo

# In the directory of the caller.
PROOF = "amd-gpu-proof.json"
# Of what the file says.
VERSION = 1


def write_proof(host: Host, facts: Facts, engines: Sequence[ProofEngine], proofs: Sequence[Proof]) -> None:
    """Write the results with models and versions, and nothing that names this machine; FileError."""
    document: dict[str, Any] = {
        "version": VERSION,
        "toolkit": read_build(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "system": _system(host),
        "kernel": facts.kernel.release,
        "driver": facts.kernel.driver_version or "of the kernel",
        "python": platform.python_version(),
        "gpus": [_describe(gpu) for gpu in facts.gpus.gpus],
        "engines": [{"name": engine.name, "version": engine.version} for engine in engines],
        "results": [proof.as_dict() for proof in proofs],
    }
    text = json.dumps(document, indent=2) + "\n"
    write_new_file(PROOF, text.encode(), mode=0o644, owner=behind_sudo(os.environ))


def _system(host: Host) -> str:
    lines = host.read_attribute(OS_RELEASE).splitlines()
    return next((line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "unknown")


def _describe(gpu: Gpu) -> dict[str, Any]:
    return {
        "number": gpu.number,
        "target": gpu.gfx_target,
        "device_id": f"{gpu.device_id:#06x}",
        "compute_partition": gpu.compute_partition,
        "memory_partition": gpu.memory_partition,
        "integrated": gpu.is_apu,
    }
