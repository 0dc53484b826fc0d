"""Start a container for each GPU with each engine, and report the results: a table, and a file for maintainers."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amd_ctk.build import read_build
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.kernel import OS_RELEASE
from amd_ctk.prove.answers import FAILED, NO_GPU, OK, SKIPPED, Proof, judge, parse_answers
from amd_ctk.prove.engines import LIMIT, ProofEngine, Run, image_in
from amd_ctk.prove.image import pack_image, probe_command
from amd_gpu_tracker import GpuState
from amdgpu_discovery.command_line.listing import format_columns
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import write_new_file
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.usage.people import behind_sudo

LONGEST_PROOF_MESSAGE = 300
# The number in a result that concerns the engine as a whole.
NO_NUMBER = -1
# In the caller's working directory.
PROOF = "amd-gpu-proof.json"
# Of the file's format.
VERSION = 1


class NothingToProve(ToolkitError):
    """This host has no GPU, or no engine that answers."""

    exit_code = 2


def require_provable(facts: Facts, engines: Sequence[ProofEngine]) -> None:
    """Raise NothingToProve if there is no GPU or no engine."""
    if not facts.gpus.gpus:
        raise NothingToProve("this host has no AMD GPU that can compute", hint="'amd-ctk doctor' looks for the cause")
    if not engines:
        raise NothingToProve("no container engine answers", hint="start Docker or Podman, and run this with sudo")


def prove(facts: Facts, states: Mapping[int, GpuState], engines: Sequence[ProofEngine]) -> Iterator[Proof]:
    """Yield the result for each GPU with each engine, from one container at a time. GPUs in use are skipped.

    `states` has the known states of GPUs by number. NoImage if python3 cannot be packed.
    """
    gpus = facts.gpus.gpus
    packed = pack_image()
    for engine in engines:
        if engine.problem:
            yield Proof(engine=engine.name, gpu=NO_NUMBER, state=FAILED, words=engine.problem)
            continue
        try:
            with image_in(engine, packed) as run:
                yield from (_prove(engine, gpu, gpus, states.get(gpu.number), run) for gpu in gpus)
        except ToolkitError as error:
            yield Proof(engine=engine.name, gpu=NO_NUMBER, state=FAILED, words=error.message)


def _prove(engine: ProofEngine, gpu: Gpu, gpus: Sequence[Gpu], state: GpuState | None, run: Run) -> Proof:
    if state and state.state != state.FREE:
        why = f"{state.state} {f'by {state.what}' if state.what else state.reason}".rstrip()
        return Proof(engine=engine.name, gpu=gpu.number, state=SKIPPED, words=printable(why))
    foreign = ",".join(str(other.render_minor) for other in gpus if other.number != gpu.number)
    answer = run(gpu.number, probe_command(foreign))
    if not answer.succeeded:
        lines = answer.errors.strip().splitlines() or [answer.problem or f"exit code {answer.exit_code}"]
        words = printable(lines[-1][:LONGEST_PROOF_MESSAGE])
        return Proof(engine=engine.name, gpu=gpu.number, state=FAILED, words=f"the container does not start: {words}")
    limit = LIMIT.mib if engine.is_limited else 0
    result, words = judge(parse_answers(answer.output), gpu, gpus, limit_mib=limit)
    return Proof(engine=engine.name, gpu=gpu.number, state=result, words=words)


def is_proved(proofs: Sequence[Proof]) -> bool:
    """Return whether every free GPU works with every engine, and at least one GPU was free."""
    states = {proof.state for proof in proofs}
    return OK in states and not states & {FAILED, NO_GPU}


def format_proofs(proofs: Sequence[Proof]) -> str:
    """Format a line for each result, and the totals."""
    rows = [("Engine", "GPU", "Result", "")]
    for proof in proofs:
        number = "-" if proof.gpu == NO_NUMBER else str(proof.gpu)
        rows.append((proof.engine, number, proof.state, proof.words))
    good = sum(proof.state == OK for proof in proofs)
    skipped = sum(proof.state == SKIPPED for proof in proofs)
    return f"{format_columns(rows)}\n{good} of {len(proofs) - skipped} proved, {skipped} skipped"


def write_proof(host: Host, facts: Facts, engines: Sequence[ProofEngine], proofs: Sequence[Proof]) -> None:
    """Write the results with models and versions, but without identifying this machine; FileError."""
    release = (line.partition("=") for line in host.read_attribute(OS_RELEASE).splitlines())
    document: dict[str, Any] = {
        "version": VERSION,
        "toolkit": read_build(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "system": next((name.strip('"') for key, _, name in release if key == "PRETTY_NAME"), "unknown"),
        "kernel": facts.kernel.release,
        "driver": facts.kernel.driver_version or "of the kernel",
        "python": platform.python_version(),
        "gpus": [_describe(gpu) for gpu in facts.gpus.gpus],
        "engines": [{"name": engine.name, "version": engine.version} for engine in engines],
        "results": [proof.as_dict() for proof in proofs],
    }
    text = json.dumps(document, indent=2) + "\n"
    write_new_file(PROOF, text.encode(), mode=0o644, owner=behind_sudo(os.environ))


def _describe(gpu: Gpu) -> dict[str, Any]:
    return {
        "number": gpu.number,
        "target": gpu.gfx_target,
        "device_id": f"{gpu.device_id:#06x}",
        "compute_partition": gpu.compute_partition,
        "memory_partition": gpu.memory_partition,
        "integrated": gpu.is_apu,
    }
