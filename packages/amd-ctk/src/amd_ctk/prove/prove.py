"""Start a container for each GPU with each engine, and put together what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from amd_ctk.doctor.facts.all import Facts
from amd_ctk.programs import Answer
from amd_ctk.prove.answers import FAILED, NO_GPU, OK, SKIPPED, Proof, judge, parse_answers
from amd_ctk.prove.engines import ProofEngine, image_in
from amd_ctk.prove.image import pack_image, probe_command
from amd_gpu_tracker import GpuState
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.plain_text import printable

LONGEST_MESSAGE = 300
# A line that is about an engine as a whole.
NO_NUMBER = -1


class NothingToProve(ToolkitError):
    """This host has no GPU, or no engine that answers."""

    exit_code = 2


def require_what_proves(facts: Facts, engines: Sequence[ProofEngine]) -> None:
    """Raise NothingToProve where there is no GPU or no engine."""
    if not facts.gpus.gpus:
        raise NothingToProve("this host has no AMD GPU that can compute", hint="'amd-ctk doctor' looks for the cause")
    if not engines:
        raise NothingToProve("no container engine answers", hint="start Docker or Podman, and run this with sudo")


def prove(facts: Facts, states: Mapping[int, GpuState], engines: Sequence[ProofEngine]) -> Iterator[Proof]:
    """Yield what comes of each GPU with each engine, one container at a time; GPUs in use are left alone.

    `states` has the state of each GPU by number, where it is known. NoImage where python3 cannot be packed.
    """
    gpus, packed = facts.gpus.gpus, pack_image()
    for engine in engines:
        if engine.problem:
            yield Proof(engine=engine.name, gpu=NO_NUMBER, state=FAILED, words=engine.problem)
            continue
        try:
            with image_in(engine, packed) as run:
                yield from (_prove(engine, gpu, gpus, states.get(gpu.number), run) for gpu in gpus)
        except ToolkitError as error:
            yield Proof(engine=engine.name, gpu=NO_NUMBER, state=FAILED, words=error.message)


def _prove(
    engine: ProofEngine,
    gpu: Gpu,
    gpus: Sequence[Gpu],
    state: GpuState | None,
    run: Callable[[int, list[str]], Answer],
) -> Proof:
    if state and state.state != state.FREE:
        why = f"{state.state} {f'by {state.what}' if state.what else state.reason}".rstrip()
        return Proof(engine=engine.name, gpu=gpu.number, state=SKIPPED, words=printable(why))
    foreign = ",".join(str(other.render_minor) for other in gpus if other.number != gpu.number)
    answer = run(gpu.number, probe_command(foreign))
    if not answer.succeeded:
        lines = answer.errors.strip().splitlines() or [answer.problem or f"exit code {answer.exit_code}"]
        words = printable(lines[-1][:LONGEST_MESSAGE])
        return Proof(engine=engine.name, gpu=gpu.number, state=FAILED, words=f"the container does not start: {words}")
    result, words = judge(parse_answers(answer.output), gpu, gpus)
    return Proof(engine=engine.name, gpu=gpu.number, state=result, words=words)


def is_proved(proofs: Sequence[Proof]) -> bool:
    """Return whether each GPU that was free works with each engine, and at least one was."""
    states = {proof.state for proof in proofs}
    return OK in states and not states & {FAILED, NO_GPU}


def format_proofs(proofs: Sequence[Proof]) -> str:
    """Return a line for each proof, and the sum."""
    rows = [("Engine", "GPU", "Result", "")]
    rows += [(proof.engine, _number(proof), proof.state, proof.words) for proof in proofs]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row[:3], widths, strict=True)), row[3]]) for row in rows
    ]
    good = sum(proof.state == OK for proof in proofs)
    skipped = sum(proof.state == SKIPPED for proof in proofs)
    sums = f"{good} of {len(proofs) - skipped} proved, {skipped} skipped"
    return "\n".join([*(line.rstrip() for line in lines), sums])


def _number(proof: Proof) -> str:
    return "-" if proof.gpu == NO_NUMBER else str(proof.gpu)
