"""Which GPUs a choice gets: a request that describes GPUs and names none, such as `auto:2` or `all+discrete`."""

from __future__ import annotations

from amd_device_spec.request import Node
from amdgpu_discovery.choices.candidates import find_candidates
from amdgpu_discovery.choices.grammar import Choice, parse_choice
from amdgpu_discovery.choices.oci_spec import Grant
from amdgpu_discovery.choices.selection import ALL, split_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu, GpuLocation

EVERY_GPU = Choice(text=ALL, word=ALL, count=0)


def grant_choice(request: str, node: Node) -> Grant | None:
    """Grant all GPUs that fit, or let the GPU Tracker choose; return None if the request names GPUs. RequestError."""
    choice = parse_choice(request)
    if choice is None:
        is_all = [item.lower() for item in split_items(request)] == [ALL]
        return Grant(gpus=_located(_find_candidates(EVERY_GPU, node), node)) if is_all and node.gpus else None
    candidates = _find_candidates(choice, node)
    if choice.needs_tracker:
        return Grant(gpus=(), choice=choice, candidates=tuple(candidates))
    return Grant(gpus=_located(candidates, node), choice=choice)


def _find_candidates(choice: Choice, node: Node) -> list[Gpu]:
    # In a Slurm job, a container can get only the GPUs of that job.
    numbers = {gpu.number for gpu in node.gpus}
    return find_candidates(
        choice, [gpu for gpu in node.described() if gpu.number in numbers], node.settings.choice_rules()
    )


def _located(chosen: Sequence[Gpu], node: Node) -> tuple[GpuLocation, ...]:
    """Return the locations of GPUs, which is what callers compare."""
    numbers = {gpu.number for gpu in chosen}
    return tuple(gpu for gpu in node.gpus if gpu.number in numbers)
