"""Hold what an image requires against the GPUs that its container gets: all of them must fit."""

from __future__ import annotations

from amdgpu_discovery.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.requirements.facts import HINT, RequirementError, read_facts
from amdgpu_discovery.requirements.grammar import MOST_CHARACTERS, find_requirements, parse_requirement
from amdgpu_discovery.requirements.judge import judge
from amdgpu_discovery.targets import OVERRIDE
from amdgpu_discovery.unknown_gpus import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from amdgpu_discovery.host import Host
    from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu
    from amdgpu_discovery.requirements.grammar import Comparison


def check_container(
    host: Host, environment: Sequence[str], numbers: Container[int], *, enforce: bool = True
) -> list[str]:
    """Check the requirements in an environment against GPUs of a host; return notes for the log.

    RequirementError where they do not hold, unless they are not to be enforced: then that is a note too.
    """
    requirements = find_requirements(environment)
    if not requirements:
        return []
    # Of several values of a variable the last counts.
    variables = dict(entry.partition("=")[::2] for entry in environment)
    try:
        return check_requirements(requirements, read_facts(host, numbers, variables))
    except RequirementError as error:
        if enforce:
            raise
        return [error.message]


def check_requirements(requirements: Mapping[str, str], facts: ContainerFacts) -> list[str]:
    """Return what could not be judged and was let pass, as notes; RequirementError names the first that fails.

    A container without a GPU fits every requirement: its image was started to do without.
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
            # The value as it stands in the image, in front of what is the case.
            words = f"{shown(variable)}={shown(value)}: {error.message}"
            raise RequirementError(words, hint=HINT, clause=error.clause) from error
    if facts.override:
        notes[f"{OVERRIDE} makes ROCm take every GPU for {facts.override}, which AMD does not support"] = None
    return list(notes)


def _check(value: str, facts: ContainerFacts) -> list[str]:
    alternatives = parse_requirement(value)
    if not alternatives:
        return []
    # Most hosts have GPUs of one model: the first of those that are alike speaks for them.
    unlike = {gpu.replace(number=0): gpu for gpu in reversed(facts.gpus)}
    return [note for gpu in reversed(unlike.values()) for note in _check_gpu(alternatives, gpu, facts)]


def _check_gpu(alternatives: Sequence[Sequence[Comparison]], gpu: JudgedGpu, facts: ContainerFacts) -> list[str]:
    """Return the notes of the first alternative that holds for a GPU."""
    reasons: dict[str, None] = {}
    for alternative in alternatives:
        judgements = [judge(comparison, gpu, facts) for comparison in alternative]
        failed = [judgement.words for judgement in judgements if not judgement.holds]
        if not failed:
            return [judgement.words for judgement in judgements if judgement.is_unknown]
        reasons[failed[0]] = None
    # A GPU and its host have one word for each property, so these are few.
    raise RequirementError(" and ".join(reasons))
