"""Judge whether an image fits GPUs of this host, and which of several images fits best.

Images are judged by their code, requirements, annotations and processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amd_device_spec.requested import select_requested
from amd_gpu_images.bounds import ImageError
from amd_gpu_images.content.contents import Image, targets_of
from amdgpu_discovery.choices.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.requirements.check import check_requirements, judge
from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu, RequirementError, read_facts
from amdgpu_discovery.requirements.grammar import MOST_CHARACTERS, Comparison, find_requirements, parse_requirement
from amdgpu_discovery.tables.driver_versions import leading_numbers
from amdgpu_discovery.tables.targets import ANY_TARGET, belongs_to
from amdgpu_discovery.value import Value

# In labels and annotations of images: targets, separated by white space or commas.
TARGETS_ANNOTATION = "com.amd.gpu.targets"
# In annotations, com.amd.gpu.require.rocm means the same as AMD_REQUIRE_ROCM in the environment.
REQUIRE_ANNOTATION = "com.amd.gpu.require."
# gfx90a, gfx1100.
DIGITS_OF_TARGET = (3, 4)
# The property of a requirement that is a GPU's target.
TARGET = "gfx"
TOO_LONG = f"its requirements have more than {MOST_CHARACTERS} characters"


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
    targets, claim = _claimed_targets(image)
    missing = missing_code(targets, facts, claim) if targets else ""
    reasons = [missing] if missing else []
    requirements = requirements_of(image)
    notes: list[str] = []
    if not is_short(requirements.values()):
        return ImageVerdict(reasons=(*reasons, TOO_LONG))
    for variable, value in requirements.items():
        try:
            notes += check_requirements({variable: value}, facts)
        except RequirementError as error:
            reasons.append(error.message)
    return ImageVerdict(
        reasons=tuple(reasons), notes=tuple(dict.fromkeys(notes)), is_known=bool(targets or requirements)
    )


def judge_for_target(image: Image, target: str) -> ImageVerdict:
    """Return why an image fits no GPU of this target. The notes name requirements that depend on a host."""
    targets, claim = _claimed_targets(image)
    lacks_code = targets and not any(belongs_to(target, name) for name in targets)
    reasons = [f"{claim} {' '.join(targets)}"] if lacks_code else []
    requirements = requirements_of(image)
    if not is_short(requirements.values()):
        return ImageVerdict(reasons=(*reasons, TOO_LONG))
    notes = []
    is_judged = bool(targets)
    for variable, value in requirements.items():
        shown_value = f"{shown(variable)}={shown(value)}"
        try:
            alternatives = parse_requirement(value)
            is_met = not alternatives or any(_may_be_met(each, target) for each in alternatives)
        except RequirementError as error:
            reasons.append(f"{shown_value}: {error.message}")
            continue
        if not is_met:
            reasons.append(f"{shown_value}: the GPU is {target}")
        subjects = {comparison.subject for alternative in alternatives for comparison in alternative}
        is_judged = is_judged or TARGET in subjects
        if is_met and subjects - {TARGET}:
            notes.append(f"{shown_value} also depends on the host")
    return ImageVerdict(reasons=tuple(reasons), notes=tuple(notes), is_known=is_judged)


def parse_target(text: str) -> str:
    """Return the target of a GPU, such as gfx942; ImageError for any other text, also for a generic target."""
    digits = text.removeprefix("gfx")
    if text.startswith("gfx") and len(digits) in DIGITS_OF_TARGET and not digits.strip("0123456789abcdef"):
        return text
    raise ImageError(f"{shown(text, quoted=True)} is not the target of a GPU", hint="write it as in gfx942")


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


def _claimed_targets(image: Image) -> tuple[list[str], str]:
    """Return the targets of an image, and a clause for where they are from: code overrides labels and annotations."""
    code = targets_of(image.layers)
    return (code, "the image has code for") if code else (declared_targets(image), "the image says it is for")


def _may_be_met(conditions: Sequence[Comparison], target: str) -> bool:
    """Return whether conditions may hold on some host for a GPU of this target."""
    gpu = JudgedGpu(number=0, target=target)
    facts = ContainerFacts(gpus=(gpu,))
    return all(judge(each, gpu, facts).holds for each in conditions if each.subject == TARGET)


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
