"""Pick one of several images for this host, and say why not the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.check import judge_image, told_targets
from amd_ctk.image.contents import Image
from amd_ctk.image.matrix import Template, requirements_of
from amdgpu_discovery.requirements.check import check_requirements
from amdgpu_discovery.requirements.facts import ContainerFacts, RequirementError
from amdgpu_discovery.requirements.judge import leading_numbers
from amdgpu_discovery.targets import ANY_TARGET
from amdgpu_discovery.value import Value

# A repository of AMD has some thousand.
MOST_TAGS = 100_000


class Candidate(Value):
    """One of the images: how it is named, what orders it, and why it does not fit ("" where it does)."""

    name: str
    reason: str = ""
    # Whether it says anything by which it can be judged.
    is_known: bool = True
    rank: tuple[int, int, tuple[int, ...], str] = (0, 0, (), "")


def judge_tags(tags: Iterable[str], template: Template, facts: ContainerFacts) -> list[Candidate]:
    """Return a candidate for each name of the template; names of other templates are left out. ImageError."""
    candidates: list[Candidate] = []
    for count, tag in enumerate(filter(None, map(str.strip, tags))):
        if count >= MOST_TAGS:
            raise ImageError(f"there are more than {MOST_TAGS} tags")
        values = template.parse(tag)
        if values is not None:
            candidates.append(_judge_tag(tag, values, facts))
    return candidates


def judge_entries(images: Iterable[tuple[str, Image]], facts: ContainerFacts) -> list[Candidate]:
    """Return a candidate for each image of an index, by what its annotations and its platform say."""
    return [_judge_entry(name, image, facts) for name, image in images]


def best(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the image that fits best: the most exact target, then the highest level of processor, then the newest."""
    return max((each for each in candidates if not each.reason), key=lambda each: each.rank, default=None)


def _judge_tag(tag: str, values: dict[str, str], facts: ContainerFacts) -> Candidate:
    try:
        check_requirements(requirements_of(values), facts)
    except RequirementError as error:
        return Candidate(name=tag, reason=error.clause)
    target = values.get("gfx") or values.get("family") or values.get("gfx|family") or ""
    version = leading_numbers(values.get("version", "")) + leading_numbers(values.get("rocm", ""))
    return Candidate(name=tag, rank=(_exactness(target), _level(values.get("cpu", "")), version, tag))


def _judge_entry(name: str, image: Image, facts: ContainerFacts) -> Candidate:
    verdict = judge_image(image, facts)
    if not verdict.is_known:
        return Candidate(name=name, reason="it says nothing about what it is for", is_known=False)
    if verdict.reasons:
        return Candidate(name=name, reason=verdict.reasons[0])
    exactness = max((_exactness(target) for target in told_targets(image)), default=0)
    return Candidate(name=name, rank=(exactness, _level(image.cpu), (), name))


def _exactness(target: str) -> int:
    if target in ("", ANY_TARGET):
        return 0
    return 1 if target.endswith("-generic") else 2 if target[-1] in "Xx" else 3


def _level(cpu: str) -> int:
    return int(cpu[-1]) if cpu else 0
