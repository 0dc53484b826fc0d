"""What is to be done for each user, in turns: nothing that one user does makes another wait for more than one turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
# Of one user, before it is the next one's turn; a request takes 5 to 20 milliseconds and is not interrupted.
TURN_SECONDS = 0.01


class FairTurns(Generic[Item]):
    """Queues by user. `now` is a clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._queues: dict[int, deque[Item]] = {}
        self._now = now

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def count_of(self, uid: int) -> int:
        """Return how much is to be done for a user."""
        return len(self._queues.get(uid, ()))

    def add(self, uid: int, item: Item) -> None:
        """Add something that is to be done for a user, behind the rest."""
        self._queues.setdefault(uid, deque()).append(item)

    def take(self, seconds: float = TURN_SECONDS) -> Iterator[Item]:
        """Yield what is done in one round: of each user one item, and more until its caller has spent `seconds`."""
        for uid in list(self._queues):
            queue, end = self._queues[uid], self._now() + seconds
            while queue:
                yield queue.popleft()
                if self._now() >= end:
                    break
            if not queue:
                del self._queues[uid]
