"""Hand out the numbers that drivers take from pools."""

from __future__ import annotations

from collections.abc import Iterator

from amdgpu_discovery.simulate.profile import Minors, Profile, ProfileError, SimulatedGpu

# drivers/gpu/drm/drm_drv.c: 64 minors for each kind of node, and since Linux 6.12 a range for both after them.
CARD_MINORS = range(64)
RENDER_MINORS = range(128, 192)
SHARED_MINORS = range(192, 1 << 20)


class MinorPool:
    """The DRM minors that are still free; those that a profile gives to its devices are not."""

    def __init__(self, profile: Profile) -> None:
        self._shared = SHARED_MINORS if profile.driver and profile.driver.shared_minors else range(0)
        self._taken: set[int] = set()
        for other in profile.others:
            self._reserve(other.minors)
        for device in profile.functions:
            for pair in device.minors:
                self._reserve(pair)

    def take(self, *, has_render: bool = True) -> Minors:
        """Return the next free card minor, and render minor if wanted; None where there are no more."""
        return self._take(CARD_MINORS), self._take(RENDER_MINORS) if has_render else None

    def _take(self, wanted: range) -> int | None:
        for numbers in (wanted, self._shared):
            for minor in numbers:
                if minor not in self._taken:
                    self._taken.add(minor)
                    return minor
        return None

    def _reserve(self, pair: Minors) -> None:
        for minor in pair:
            if minor in self._taken:
                raise ProfileError(f"two nodes of the profile have DRM minor {minor}", hint="give each its own")
            if minor is not None:
                self._taken.add(minor)


class XcpNumbers:
    """The N of amdgpu_xcp_N that are still free: one pool for all GPUs."""

    def __init__(self, profile: Profile) -> None:
        given = [number for gpu in profile.gpus for number in gpu.xcp_numbers]
        self._taken = set(given)
        if len(given) != len(self._taken):
            raise ProfileError("two partition devices of the profile have the same number", hint="change xcp_numbers")

    def of(self, gpu: SimulatedGpu) -> Iterator[int]:
        """Yield a number for each partition device of a GPU."""
        yield from gpu.xcp_numbers
        while True:
            number = next(number for number in range(1 << 20) if number not in self._taken)
            self._taken.add(number)
            yield number
