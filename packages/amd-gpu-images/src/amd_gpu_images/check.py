"""Judge whether an image fits GPUs of this host, and which of several images fits best.

Images are judged by their code, requirements, annotations and processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amd_device_spec.requested import select_requested
from amd_gpu_images.bounds import ImageError
from amd_gpu_images.content.contents import Image, targets_of
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver_versions import leading_numbers
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.requirements.check import check_requirements
from amdgpu_discovery.requirements.facts import ContainerFacts, RequirementError, read_facts
from amdgpu_discovery.requirements.grammar import MOST_CHARACTERS, find_requirements, parse_requirement
from amdgpu_discovery.targets import ANY_TARGET, belongs_to
from amdgpu_discovery.value import Value

# In labels and annotations of images: targets, separated by white space or commas.
TARGETS_ANNOTATION = "com.amd.gpu.targets"
# In annotations, com.amd.gpu.require.rocm means the same as AMD_REQUIRE_ROCM in the environment.
REQUIRE_ANNOTATION = "com.amd.gpu.require."


class ImageVerdict(Value):
    """The reasons why an image does not fit; none if it fits."""

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # Whether the image states anything by which it can be judged.
    is_known: bool = True


def read_host(host: Host, request: str, environment: Sequence[str] = ()) -> ContainerFacts:
    """Return the facts about the requested GPUs, in a container with this environment.

    ImageError if there is no driver or no GPU, or if the host cannot meet the request.
    """
    try:
        gpus = select_requested(host, find_gpus(host), request)
    except ToolkitError as error:
        # In commands about images, exit code 1 means that the image was judged and does not fit.
        raise ImageError(error.message, hint=error.hint) from error
    if not gpus:
        raise ImageError("this host has no GPU to check the image against", hint="'amd-ctk gpu list' shows the GPUs")
    variables = dict(entry.partition("=")[::2] for entry in environment)
    return read_facts(host, {gpu.number for gpu in gpus}, variables)


def judge_image(image: Image, facts: ContainerFacts) -> ImageVerdict:
    """Return why an image does not fit, if it does not. The notes name what could not be judged."""
    code, declared = targets_of(image.layers), declared_targets(image)
    # The code in the files overrides what labels and annotations claim.
    missing = missing_code(code, facts, "the image has code for") if code else ""
    if declared and not code:
        missing = missing_code(declared, facts, "the image says it is for")
    reasons = [missing] if missing else []
    requirements = requirements_of(image)
    notes: list[str] = []
    if not is_short(requirements.values()):
        reasons.append(f"its requirements have more than {MOST_CHARACTERS} characters")
        return ImageVerdict(reasons=tuple(reasons))
    for variable, value in requirements.items():
        try:
            notes += check_requirements({variable: value}, facts)
        except RequirementError as error:
            reasons.append(error.message)
    return ImageVerdict(
        reasons=tuple(reasons), notes=tuple(dict.fromkeys(notes)), is_known=bool(code or declared or requirements)
    )


def is_short(values: Iterable[str]) -> bool:
    """Return whether all values together are within the limit for judging an image."""
    return sum(map(len, values)) <= MOST_CHARACTERS


def missing_code(targets: Sequence[str], facts: ContainerFacts, claim: str) -> str:
    """Describe the first GPU that none of `targets` fits; "" if every GPU has code."""
    for gpu in facts.gpus:
        if not (gpu.target and any(belongs_to(gpu.target, target) for target in targets)):
            is_what = f"GPU {gpu.number} is {gpu.target or 'of an unknown target'}"
            return f"{is_what}, {claim} {' '.join(targets)}"
    return ""


def requirements_of(image: Image) -> dict[str, str]:
    """Return the requirements in an image's environment, annotations and platform, by their displayed names."""
    declared = {
        f"{REQUIREMENT_PREFIX}{name.removeprefix(REQUIRE_ANNOTATION).upper()}": value
        for name, value in image.annotations.items()
        if name.startswith(REQUIRE_ANNOTATION)
    }
    platform = {"platform.variant": f"cpu>={image.cpu}"} if image.cpu else {}
    return {**platform, **declared, **find_requirements(image.environment)}


def declared_targets(image: Image) -> list[str]:
    """Return the targets in an image's annotations or labels."""
    text = image.annotations.get(TARGETS_ANNOTATION) or image.labels.get(TARGETS_ANNOTATION, "")
    return [word for word in text[:MOST_CHARACTERS].replace(",", " ").split() if word.isprintable()]


class JudgedImage(Value):
    """One of several images: its name, its rank, and why it does not fit ("" if it fits)."""

    name: str
    reason: str = ""
    # Whether the image states anything by which it can be judged.
    is_known: bool = True
    rank: tuple[int, str, tuple[int, ...]] = (0, "", ())


def judge_entries(images: Iterable[tuple[str, Image]], facts: ContainerFacts) -> list[JudgedImage]:
    """Judge each image of an index by its annotations and its platform."""
    return [_judge_entry(name, image, facts) for name, image in images]


def best(candidates: Sequence[JudgedImage]) -> JudgedImage | None:
    """Return the best image that fits: by target, then processor, then ROCm. Of equals, the first wins."""
    return max((each for each in candidates if not each.reason), key=lambda each: each.rank, default=None)


def _judge_entry(name: str, image: Image, facts: ContainerFacts) -> JudgedImage:
    verdict = judge_image(image, facts)
    if not verdict.is_known:
        return JudgedImage(name=name, reason="it does not say what it is for", is_known=False)
    if verdict.reasons:
        return JudgedImage(name=name, reason=verdict.reasons[0])
    return JudgedImage(name=name, rank=_rank(image))


def _rank(image: Image) -> tuple[int, str, tuple[int, ...]]:
    required = _required_values(image)
    exactness = max(map(_exactness, [*declared_targets(image), *required.get("gfx", [])]), default=0)
    rocm = max(map(leading_numbers, required.get("rocm", [])), default=())
    return exactness, max(required.get("cpu", []), default=""), rocm


def _required_values(image: Image) -> dict[str, list[str]]:
    """Return the values that the image's requirements name for each property; the facts already meet them."""
    values: dict[str, list[str]] = {}
    for value in requirements_of(image).values():
        for comparison in (each for alternative in parse_requirement(value) for each in alternative):
            if comparison.operator in ("=", ">="):
                values.setdefault(comparison.subject, []).append(comparison.value)
    return values


def _exactness(target: str) -> int:
    if target == ANY_TARGET:
        return 0
    if target.endswith("-generic"):
        return 1
    return 2 if target[-1] in "Xx" else 3
