"""Limits what one scan reads of all processes of a user, so that no user can make it take minutes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Descriptors: 200,000 take two seconds.
MOST_LINKS = 200_000
# Descriptors of DRM nodes: 128 processes that compute, on a host with 64 partitions.
MOST_READINGS = 8192
# Bytes that are read of these, many times what DRM prints.
MOST_CLIENT_BYTES = 64 * 1024 * 1024
# Root gets more, because daemons and most containers belong to root.
SHARE_OF_ROOT = 5
# Processor time for all users together, however many there are. A busy machine takes longer to provide it.
CLIENT_SECONDS = 5.0


class Deadline:
    """The time limit of a scan, however much there is to read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self._end = self._start + CLIENT_SECONDS

    def is_over(self) -> bool:
        """Return whether the time has run out."""
        return self._clock() > self._end

    def is_half_over(self) -> bool:
        """Return whether it is time to start reading, in whatever order."""
        return self._clock() > (self._start + self._end) / 2


class Budget:
    """What one user has left of these limits."""

    def __init__(self, *, links: int, readings: int, most_bytes: int) -> None:
        self._links = links
        self._readings = readings
        self._bytes = most_bytes

    def take_link(self) -> bool:
        """Return whether one more descriptor may be read, and count it."""
        self._links -= 1
        return self._links >= 0

    def may_read(self) -> bool:
        """Return whether the state of one more DRM node may be read."""
        return self._readings > 0 and self._bytes > 0

    def take_reading(self, size: int) -> None:
        """Count what was read of one DRM node."""
        self._readings -= 1
        self._bytes -= size


def budget_of(uid: int) -> Budget:
    """Return what a scan may read of the processes that are charged to a user."""
    share = 1 if uid else SHARE_OF_ROOT
    return Budget(links=MOST_LINKS * share, readings=MOST_READINGS * share, most_bytes=MOST_CLIENT_BYTES * share)
