"""The GPUs that a request of a command means, by the settings of the host."""

from __future__ import annotations

from amd_device_spec.settings import read_settings
from amdgpu_discovery.choices.candidates import select_described
from amdgpu_discovery.choices.grammar import parse_choice
from amdgpu_discovery.choices.rules import NO_RULES
from amdgpu_discovery.discover import find_unnumbered_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host


def select_requested(host: Host, gpus: Sequence[Gpu], request: str) -> list[Gpu]:
    """Return the GPUs that a request names, or all that fit it, used or free; RequestError, SettingsError."""
    # Invalid settings must not prevent a request that names GPUs.
    rules = read_settings(host).choice_rules() if parse_choice(request) else NO_RULES
    return select_described(gpus, request, rules, unnumbered=lambda: find_unnumbered_gpus(host))
