"""Finds the GPUs of a host that fit a choice, whether they are in use or not."""

from __future__ import annotations

from amdgpu_discovery.choices.grammar import (
    DISCRETE,
    GFX,
    GROUP,
    INTEGRATED,
    MODE,
    MODEL,
    NUMA,
    VRAM,
    XGMI,
    parse_choice,
)
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.choices.unknown_gpus import SHOW_GPUS, no_gpu, shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.tables.targets import belongs_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amdgpu_discovery.choices.grammar import Choice, Condition
    from amdgpu_discovery.gpu import Gpu, UnnumberedGpu

GIBIBYTE = 2**30


def find_candidates(choice: Choice, gpus: Sequence[Gpu], rules: ChoiceRules = NO_RULES) -> list[Gpu]:
    """Return those of `gpus` that a choice may mean, by number; RequestError if these can never be enough."""
    if not gpus:
        raise no_gpu()
    fitting = _without_integrated(choice, gpus, rules)
    for condition in choice.conditions:
        fits = _test_of(condition, gpus, rules)
        fitting = [gpu for gpu in fitting if fits(gpu)]
        if not fitting:
            wanted = [shown(each.text) for each in (choice.conditions if any(map(fits, gpus)) else [condition])]
            what = wanted[0] if len(wanted) == 1 else f"all of {', '.join(wanted)}"
            raise RequestError(f"{shown(choice.text)}: no GPU of this host fits {what}", hint=SHOW_GPUS)
    _require_enough(choice, fitting, gpus)
    return fitting


def select_described(
    gpus: Sequence[Gpu],
    request: str,
    rules: ChoiceRules = NO_RULES,
    *,
    unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple,
) -> list[Gpu]:
    """Return the GPUs that a request names, or all that fit it; RequestError if that depends on what is in use."""
    choice = parse_choice(request)
    if choice is None:
        numbers = {gpu.number for gpu in select_gpus(gpus, request, unnumbered=unnumbered)}
        return [gpu for gpu in gpus if gpu.number in numbers]
    if choice.needs_tracker:
        raise RequestError(
            f"{shown(choice.text)} depends on which GPUs are in use, which does not count here",
            hint="name GPUs, or write all with conditions, such as all+gfx942",
        )
    return find_candidates(choice, gpus, rules)


def _require_enough(choice: Choice, fitting: Sequence[Gpu], gpus: Sequence[Gpu]) -> None:
    if len(fitting) < choice.count:
        raise _too_few(choice, len(fitting), gpus)
    if choice.in_one_hive:
        hives = [gpu.xgmi_hive for gpu in fitting]
        largest = max(map(hives.count, hives))
        if largest < choice.count:
            that_fit = f"{largest} GPU{'' if largest == 1 else 's'} that fit"
            raise RequestError(f"{shown(choice.text)}: the largest XGMI hive has {that_fit}")


def _too_few(choice: Choice, fitting: int, gpus: Sequence[Gpu]) -> RequestError:
    total = f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
    if fitting < len(gpus):
        whose = f"{fitting} of {total} {'fits' if fitting == 1 else 'fit'}"
    else:
        whose = f"this host has {total}" if gpus[0].host_total == len(gpus) else f"this process may use {total}"
    return RequestError(f"{shown(choice.text)}: {whose}")


def _without_integrated(choice: Choice, gpus: Sequence[Gpu], rules: ChoiceRules) -> list[Gpu]:
    """Return the GPUs; if the settings exclude APUs beside discrete GPUs and the choice names none, without APUs."""
    discrete = [gpu for gpu in gpus if not gpu.is_apu]
    named = any(condition.kind in (INTEGRATED, GROUP) for condition in choice.conditions)
    return list(gpus) if rules.integrated or named or not discrete else discrete


def _test_of(condition: Condition, gpus: Sequence[Gpu], rules: ChoiceRules) -> Callable[[Gpu], bool]:
    """Return a function that tests a GPU for a condition; RequestError for an unknown group."""
    if condition.kind == GROUP:
        numbers = _numbers_of_group(condition, gpus, rules)
        return lambda gpu: gpu.number in numbers
    return lambda gpu: _FITS[condition.kind](gpu, condition)


def _numbers_of_group(condition: Condition, gpus: Sequence[Gpu], rules: ChoiceRules) -> tuple[int, ...]:
    request = rules.groups.get(condition.value)
    if request is None:
        names = ", ".join(sorted(rules.groups))
        raise RequestError(
            f"there is no group {shown(condition.value, quoted=True)}",
            hint=f"gpu-groups of the configuration has {names}" if names else "gpu-groups sets groups",
        )
    try:
        return tuple(gpu.number for gpu in select_gpus(gpus, request))
    except RequestError as error:
        raise RequestError(f"{condition.text}: {error.message}", hint=error.hint) from error


def _fits_vram(gpu: Gpu, condition: Condition) -> bool:
    if condition.in_gib:
        # As GPUs are sold: the driver keeps some MiB of 64 GiB for itself.
        return round((gpu.vram_bytes or 0) / GIBIBYTE) >= condition.amount
    return (gpu.vram_bytes or 0) // MEBIBYTE >= condition.amount


_FITS: Mapping[str, Callable[[Gpu, Condition], bool]] = {
    GFX: lambda gpu, condition: belongs_to(gpu.gfx_target, condition.value),
    MODEL: lambda gpu, condition: model_of(gpu) == condition.value,
    VRAM: _fits_vram,
    NUMA: lambda gpu, condition: gpu.numa_node == condition.amount,
    XGMI: lambda gpu, _: gpu.xgmi_hive is not None,
    DISCRETE: lambda gpu, _: not gpu.is_apu,
    INTEGRATED: lambda gpu, _: gpu.is_apu,
    # A GPU that cannot be partitioned counts as whole.
    MODE: lambda gpu, condition: (gpu.compute_partition or "SPX") == condition.value,
}
