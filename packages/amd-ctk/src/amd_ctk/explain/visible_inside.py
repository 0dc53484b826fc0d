"""What ROCm inside a container makes of its GPUs: their order, and the variables that filter them once more.

ROCr counts the GPUs in the order of KFD's nodes; HIP counts what ROCr leaves. A word that names none ends the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.selection import parse_unique_id
from amdgpu_discovery.value import Value

ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
# HIP looks at it where its own is not set.
CUDA = "CUDA_VISIBLE_DEVICES"
FILTERS = (ROCR, HIP, CUDA)


class Inside(Value):
    """The GPUs as programs inside count them, and what each variable that filters does."""

    hip_gpus: tuple[GpuLocation, ...]
    words_by_variable: dict[str, str]


def look_inside(gpus: Sequence[GpuLocation], environment: Mapping[str, str]) -> Inside:
    """Return what programs in a container with these GPUs see."""
    visible = sorted(gpus, key=lambda gpu: gpu.kfd_node)
    words: dict[str, str] = {}
    if ROCR in environment:
        visible, words[ROCR] = _filter(visible, environment[ROCR], "ROCm", by_id=True)
    hip = HIP if HIP in environment else CUDA
    if hip in environment:
        visible, words[hip] = _filter(visible, environment[hip], "HIP", by_id=False)
    if hip == HIP and CUDA in environment:
        words[CUDA] = f"not counted: {HIP} is set"
    return Inside(hip_gpus=tuple(visible), words_by_variable=words)


def _filter(visible: Sequence[GpuLocation], value: str, counter: str, *, by_id: bool) -> tuple[list[GpuLocation], str]:
    left = _select(visible, value, by_id=by_id)
    numbers = ", ".join(str(gpu.number) for gpu in left)
    if not visible:
        return left, "hides nothing: the container has no GPU"
    if not left:
        return left, f"hides everything: {_count(len(visible), counter)}"
    if len(left) == len(visible):
        return left, f"hides nothing: {_count(len(visible), counter)}"
    return left, f"leaves GPU{'s' if len(left) > 1 else ''} {numbers} of this host: {_count(len(visible), counter)}"


def _count(total: int, counter: str) -> str:
    if total == 1:
        return f"the container sees one GPU, which {counter} counts 0"
    return f"the container sees {total} GPUs, which {counter} counts 0-{total - 1}"


def _select(visible: Sequence[GpuLocation], value: str, *, by_id: bool) -> list[GpuLocation]:
    left: list[GpuLocation] = []
    for word in value.split(","):
        gpu = _find(visible, word.strip(), by_id=by_id)
        if gpu is None or gpu in left:
            break
        left.append(gpu)
    return left


def _find(visible: Sequence[GpuLocation], word: str, *, by_id: bool) -> GpuLocation | None:
    if word.isascii() and word.isdecimal() and len(word) < len("10000"):
        return visible[int(word)] if int(word) < len(visible) else None
    unique_id = parse_unique_id(word) if by_id and word.upper().startswith("GPU-") else None
    return next((gpu for gpu in visible if unique_id and unique_id == gpu.kfd_unique_id), None)
