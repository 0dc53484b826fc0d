"""Take the serial numbers out of a profile."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.simulate.profile import Profile, SimulatedGpu

# Nobody will take these for the ids of real hardware.
FIRST_MADE_UP = 0x5EED000000000001


def without_serials(profile: Profile) -> Profile:
    """Return the profile with its unique ids replaced: equal ones by equal ones, always by the same."""
    made_up = _MadeUpIds()
    return profile.replace(
        gpus=tuple(_replace_ids(gpu, made_up) for gpu in profile.gpus),
        cpus=tuple(cpu.replace(hive_id=made_up.instead_of(cpu.hive_id)) for cpu in profile.cpus),
    )


class _MadeUpIds:
    def __init__(self) -> None:
        self._made_up_by_id: dict[int, int] = {}

    def instead_of(self, number: int) -> int:
        # 0 is no id but says that there is none.
        return self._made_up_by_id.setdefault(number, FIRST_MADE_UP + len(self._made_up_by_id)) if number else 0


def _replace_ids(gpu: SimulatedGpu, made_up: _MadeUpIds) -> SimulatedGpu:
    return gpu.replace(
        pci_unique_id=None if gpu.pci_unique_id is None else made_up.instead_of(gpu.pci_unique_id),
        kfd_unique_ids=tuple(made_up.instead_of(number) for number in gpu.kfd_unique_ids),
        hive_id=made_up.instead_of(gpu.hive_id),
    )
