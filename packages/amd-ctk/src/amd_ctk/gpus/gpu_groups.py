"""Find errors in the groups of GPUs in the settings: wrong ones, and those that do not fit this host."""

from __future__ import annotations

from amdgpu_discovery.choices.candidates import select_described
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.choices.selection import resolve
from amdgpu_discovery.choices.unknown_gpus import NotAGpu
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import Gpu


class Groups(Value):
    """The groups of a host: the GPUs of valid groups by name, and the errors of the others."""

    gpus_by_name: dict[str, list[Gpu]]
    problem_by_name: dict[str, RequestError]


def find_mistake(request: str) -> RequestError | None:
    """Return an error that the definition of a group has on every host; None if it depends on the host's GPUs."""
    try:
        resolution = resolve((), request)
    except RequestError as error:
        return error
    mistakes = [problem for problem in resolution.unknown if isinstance(problem, NotAGpu)]
    return next(iter((*resolution.broken_ranges, *mistakes)), None)


def select_groups(settings: Settings, gpus: Sequence[Gpu]) -> Groups:
    """Find the GPUs of a host that belong to each group of the settings."""
    requests = settings.choice_rules().groups
    found = Groups(gpus_by_name={}, problem_by_name={})
    for name in requests:
        try:
            found.gpus_by_name[name] = select_described(gpus, f"all+group:{name}", ChoiceRules(groups=requests))
        except RequestError as error:
            found.problem_by_name[name] = error
    return found
