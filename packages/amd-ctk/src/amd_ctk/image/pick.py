"""Pick one of several images for this host, and say why not the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amd_ctk.image.check import judge_image, requirements_of, told_targets
from amd_ctk.image.contents import Image
from amdgpu_discovery.requirements.check import leading_numbers
from amdgpu_discovery.requirements.facts import ContainerFacts
from amdgpu_discovery.requirements.grammar import parse_requirement
from amdgpu_discovery.targets import ANY_TARGET
from amdgpu_discovery.value import Value


class JudgedImage(Value):
    """One of the images: how it is named, what orders it, and why it does not fit ("" where it does)."""

    name: str
    reason: str = ""
    # Whether it says anything by which it can be judged.
    is_known: bool = True
    rank: tuple[int, str, tuple[int, ...]] = (0, "", ())


def judge_entries(images: Iterable[tuple[str, Image]], facts: ContainerFacts) -> list[JudgedImage]:
    """Return a candidate for each image of an index, by what its annotations and its platform say."""
    return [_judge_entry(name, image, facts) for name, image in images]


def best(candidates: Sequence[JudgedImage]) -> JudgedImage | None:
    """Return the image that fits best: by target, then processor, then ROCm; the first of equals."""
    return max((each for each in candidates if not each.reason), key=lambda each: each.rank, default=None)


def _judge_entry(name: str, image: Image, facts: ContainerFacts) -> JudgedImage:
    verdict = judge_image(image, facts)
    if not verdict.is_known:
        return JudgedImage(name=name, reason="it does not say what it is for", is_known=False)
    if verdict.reasons:
        return JudgedImage(name=name, reason=verdict.reasons[0])
    return JudgedImage(name=name, rank=_rank(image))


def _rank(image: Image) -> tuple[int, str, tuple[int, ...]]:
    wanted = _wanted(image)
    exactness = max(map(_exactness, [*told_targets(image), *wanted.get("gfx", [])]), default=0)
    rocm = max(map(leading_numbers, wanted.get("rocm", [])), default=())
    return exactness, max(wanted.get("cpu", []), default=""), rocm


def _wanted(image: Image) -> dict[str, list[str]]:
    """Return the values that an image's requirements, which hold, name for each property."""
    wanted: dict[str, list[str]] = {}
    for value in requirements_of(image).values():
        for comparison in (each for alternative in parse_requirement(value) for each in alternative):
            if comparison.operator in ("=", ">="):
                wanted.setdefault(comparison.subject, []).append(comparison.wanted)
    return wanted


def _exactness(target: str) -> int:
    if target == ANY_TARGET:
        return 0
    return 1 if target.endswith("-generic") else 2 if target[-1] in "Xx" else 3
