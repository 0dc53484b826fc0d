"""Checks what an image requires against the GPUs of its container: all of them must fit."""

from __future__ import annotations

from amdgpu_discovery.choices.oci_spec import REQUIREMENT_PREFIX, find_given_gpus, names_requirements
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.requirements.facts import HINT, RequirementError, not_judged, read_facts
from amdgpu_discovery.requirements.grammar import MOST_CHARACTERS, find_requirements, parse_requirement
from amdgpu_discovery.tables.driver_versions import MOST_VERSION_DIGITS, leading_numbers
from amdgpu_discovery.tables.targets import OVERRIDE, belongs_to
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu
    from amdgpu_discovery.requirements.grammar import Comparison

CPU_PREFIX = "x86-64-v"
UNITS = {"MiB": 1, "GiB": 1024}


def check_image(host: Host, spec: dict[str, Any], gpus: Iterable[GpuLocation], *, setting: str) -> list[str]:
    """Check what the image of a container requires; return notes for the log.

    `gpus` are those that the container is granted; those that its spec opens count too. Raises RequirementError if they
    do not fit, unless the `setting` image-requirements is `warn`: then the error becomes a note.
    """
    if setting == "ignore" or not names_requirements(spec):
        return []
    environment = spec["process"]["env"]
    requirements = find_requirements(environment)
    if not requirements:
        return []
    numbers = {gpu.number for gpu in (*gpus, *find_given_gpus(host, spec))}
    # If a variable has several values, the last counts.
    variables = dict(entry.partition("=")[::2] for entry in environment)
    try:
        return check_requirements(requirements, read_facts(host, numbers, variables))
    except RequirementError as error:
        if setting == "enforce":
            raise
        return [error.message]


def check_requirements(requirements: Mapping[str, str], facts: ContainerFacts) -> list[str]:
    """Return notes on requirements that pass because they cannot be judged; RequirementError for the first that fails.

    A container without a GPU meets every requirement: its image is meant to run without one.
    """
    if not facts.gpus:
        return []
    if sum(map(len, requirements.values())) > MOST_CHARACTERS:
        raise RequirementError(
            f"the variables {REQUIREMENT_PREFIX}* have more than {MOST_CHARACTERS} characters", hint=HINT
        )
    notes: dict[str, None] = {}
    for variable, value in requirements.items():
        try:
            notes.update(dict.fromkeys(_check(value, facts)))
        except RequirementError as error:
            # The value as it stands in the image, then the fact that contradicts it.
            reason = f"{shown(variable)}={shown(value)}: {error.message}"
            raise RequirementError(reason, hint=HINT, clause=error.clause) from error
    if facts.override:
        notes[f"{OVERRIDE} makes ROCm take every GPU for {facts.override}, which AMD does not support"] = None
    return list(notes)


def _check(value: str, facts: ContainerFacts) -> list[str]:
    alternatives = parse_requirement(value)
    if not alternatives:
        return []
    # Most hosts have GPUs of one model, so only the first of identical GPUs is checked.
    unlike = {gpu.replace(number=0): gpu for gpu in reversed(facts.gpus)}
    return [note for gpu in reversed(unlike.values()) for note in _check_gpu(alternatives, gpu, facts)]


def _check_gpu(alternatives: Sequence[Sequence[Comparison]], gpu: JudgedGpu, facts: ContainerFacts) -> list[str]:
    """Return the notes of the first alternative that a GPU meets."""
    reasons: dict[str, None] = {}
    for alternative in alternatives:
        judgements = [judge(comparison, gpu, facts) for comparison in alternative]
        failed = [judgement.reason for judgement in judgements if not judgement.holds]
        if not failed:
            return [judgement.reason for judgement in judgements if judgement.is_unknown]
        reasons[failed[0]] = None
    # There is one clause for each property of a GPU and its host, so these are few.
    raise RequirementError(" and ".join(reasons))


class Judgement(Value):
    """Whether a condition holds, and the fact that decides it, as a clause."""

    holds: bool
    reason: str
    # Whether the condition passed because it could not be judged.
    is_unknown: bool = False


def judge(comparison: Comparison, gpu: JudgedGpu, facts: ContainerFacts) -> Judgement:
    """Judge one condition; RequirementError if its value is meaningless."""
    return _JUDGES[comparison.subject](comparison, gpu, facts)


def _judge_gfx(comparison: Comparison, gpu: JudgedGpu, _: ContainerFacts) -> Judgement:
    if not gpu.target:
        return Judgement(holds=False, reason=f"the driver does not report the target of GPU {gpu.number}")
    holds = belongs_to(gpu.target, comparison.value) is (comparison.operator == "=")
    return Judgement(holds=holds, reason=f"GPU {gpu.number} is {gpu.target}")


def _judge_partition(comparison: Comparison, gpu: JudgedGpu, _: ContainerFacts) -> Judgement:
    modes = [mode for mode in (gpu.compute_partition, gpu.memory_partition) if mode]
    holds = (comparison.value.upper() in (*modes, "-".join(modes))) is (comparison.operator == "=")
    return Judgement(holds=holds, reason=f"GPU {gpu.number} is in {'-'.join(modes)}")


def _judge_vram(comparison: Comparison, gpu: JudgedGpu, _: ContainerFacts) -> Judgement:
    wanted = _parse_size(comparison)
    if gpu.vram_mib is None:
        return Judgement(holds=False, reason=f"the driver does not report the memory of GPU {gpu.number}")
    reason = f"GPU {gpu.number} has {gpu.vram_mib} MiB of memory"
    return Judgement(holds=_compare((gpu.vram_mib,), comparison.operator, (wanted,)), reason=reason)


def _judge_gpus(comparison: Comparison, _: JudgedGpu, facts: ContainerFacts) -> Judgement:
    count = len(facts.gpus)
    reason = f"the container gets {count} GPU{'' if count == 1 else 's'}"
    return Judgement(holds=_compare((count,), comparison.operator, _parse_version(comparison)), reason=reason)


def _judge_kernel(comparison: Comparison, _: JudgedGpu, facts: ContainerFacts) -> Judgement:
    found, wanted = leading_numbers(facts.kernel), _parse_version(comparison)
    return Judgement(holds=_compare(found, comparison.operator, wanted), reason=f"the kernel is {facts.kernel}")


def _judge_driver(comparison: Comparison, _: JudgedGpu, facts: ContainerFacts) -> Judgement:
    wanted = _parse_version(comparison)
    if not facts.driver:
        return Judgement(holds=True, is_unknown=True, reason="the kernel's own amdgpu driver has no version")
    holds = _compare(leading_numbers(facts.driver), comparison.operator, wanted)
    return Judgement(holds=holds, reason=f"the amdgpu driver is {facts.driver}")


def _judge_rocm(comparison: Comparison, _: JudgedGpu, facts: ContainerFacts) -> Judgement:
    """Judge whether AMD tests this ROCm release with the driver."""
    wanted = _parse_version(comparison)
    if facts.oldest_rocm:
        return _judge_by_order(comparison.operator, wanted[:2], facts)
    if not facts.rocm:
        driver = f"amdgpu driver {facts.driver}" if facts.driver else "kernel's own amdgpu driver"
        unknown = f"the ROCm versions tested with the {driver} are not known"
        return Judgement(holds=True, is_unknown=True, reason=unknown)
    # The table lists minor releases.
    releases = [leading_numbers(release) for release in facts.rocm]
    wanted = wanted[:2]
    if comparison.operator == "!=":
        holds = all(_compare(release, "!=", wanted) for release in releases)
    else:
        holds = any(_compare(release, comparison.operator, wanted) for release in releases)
    reason = f"the amdgpu driver {facts.driver} is tested with ROCm {facts.rocm[0]} to {facts.rocm[-1]}"
    return Judgement(holds=holds, reason=reason)


def _judge_by_order(operator: str, wanted: tuple[int, ...], facts: ContainerFacts) -> Judgement:
    """Judge a ROCm release for a driver that is newer than the table: a driver is tested with releases near it."""
    newer = f"the amdgpu driver {facts.driver} is newer than this toolkit's table"
    oldest = leading_numbers(facts.oldest_rocm)
    is_older = wanted < oldest or (operator == "<" and wanted <= oldest)
    if is_older and operator in ("=", "<", "<="):
        return Judgement(holds=False, reason=f"{newer}, which begins with ROCm {facts.oldest_rocm}")
    return Judgement(holds=True, is_unknown=True, reason=newer)


def _judge_cpu(comparison: Comparison, _: JudgedGpu, facts: ContainerFacts) -> Judgement:
    level = comparison.value.removeprefix(CPU_PREFIX)
    if not comparison.value.startswith(CPU_PREFIX) or level not in ("1", "2", "3", "4"):
        raise _invalid_value(comparison, "cpu is one of x86-64-v1, x86-64-v2, x86-64-v3, x86-64-v4")
    if not facts.cpu_level:
        return Judgement(holds=False, reason="the processor is not an x86-64")
    # A processor of a level also runs the code of all lower levels.
    operator = ">=" if comparison.operator == "=" else comparison.operator
    holds = _compare((facts.cpu_level,), operator, (int(level),))
    return Judgement(holds=holds, reason=f"the processor is {CPU_PREFIX}{facts.cpu_level}")


_JUDGES: Mapping[str, Callable[[Comparison, JudgedGpu, ContainerFacts], Judgement]] = {
    "cpu": _judge_cpu,
    "driver": _judge_driver,
    "gfx": _judge_gfx,
    "gpus": _judge_gpus,
    "kernel": _judge_kernel,
    "partition": _judge_partition,
    "rocm": _judge_rocm,
    "vram": _judge_vram,
}


def _compare(found: tuple[int, ...], operator: str, wanted: tuple[int, ...]) -> bool:
    """Compare versions at the precision of the wanted one: 6.8.12 is 6.8."""
    # Fill up a shorter version with zeros.
    same_length = (*found, *(0,) * len(wanted))[: len(wanted)]
    if operator in ("=", "!="):
        return (same_length == wanted) is (operator == "=")
    if same_length == wanted:
        return operator in ("<=", ">=")
    return (same_length < wanted) is operator.startswith("<")


def _parse_version(comparison: Comparison) -> tuple[int, ...]:
    parts = comparison.value.removeprefix("v").split(".")
    if not all(_is_number(part) for part in parts):
        subject = comparison.subject
        raise _invalid_value(comparison, f"{subject} is compared with numbers, as in {subject}>=6.8")
    return tuple(map(int, parts))


def _parse_size(comparison: Comparison) -> int:
    unit = next((unit for unit in UNITS if comparison.value.endswith(unit)), "")
    number = comparison.value.removesuffix(unit)
    if not _is_number(number):
        raise _invalid_value(comparison, "vram is a number of MiB, or has a unit: 65536, 64GiB")
    return int(number) * UNITS.get(unit, 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_VERSION_DIGITS


def _invalid_value(comparison: Comparison, reason: str) -> Exception:
    return not_judged(f"{shown(comparison.value, quoted=True)} is not valid here: {reason}")
