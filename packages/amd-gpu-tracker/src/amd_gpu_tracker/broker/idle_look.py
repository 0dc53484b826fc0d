"""Look which GPUs are used, in a process of its own: KFD or a driver that hangs must not keep the broker."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial

from amd_gpu_tracker.broker.child import Children
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_json import dumps, loads

# Many times what a look takes, health included, which has a bound of its own.
MOST_SECONDS = 20.0
SEVERAL_ANSWERS = 65536


class IdleLook:
    """One look at a time; of one that hangs nothing is known, and no other is begun before it ends."""

    def __init__(self, host: Host, children: Children) -> None:
        self._host = host
        self._children = children
        self._pid = 0
        self._reader = -1
        self._answer = b""
        self._began = 0.0

    @property
    def descriptors(self) -> list[int]:
        """Return what is readable when the look has something to say."""
        return [self._reader] if self._reader >= 0 else []

    @property
    def deadline(self) -> float | None:
        """Return when a look that runs is given up, in seconds since boot."""
        return self._began + MOST_SECONDS if self._reader >= 0 else None

    def start(self, now: float) -> None:
        """Begin to look, unless an earlier look has not ended."""
        self._children.collect()
        if self._reader >= 0 or self._pid in self._children.running:
            return
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        self._answer, self._began = b"", now
        try:
            look = partial(_tell_unused, self._host, writer)
            self._pid = self._children.start(look, seconds=int(MOST_SECONDS), keep=(writer,))
        finally:
            os.close(writer)

    def finish(self, now: float) -> frozenset[str] | None:
        """Return the keys of the idle GPUs, once the look is over; None before, and if it failed."""
        if self._reader < 0 or (not self._is_told() and now < self._began + MOST_SECONDS):
            return None
        os.close(self._reader)
        self._reader = -1
        if now >= self._began + MOST_SECONDS:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        try:
            return frozenset(loads(self._answer))
        except ValueError:
            return None

    def _is_told(self) -> bool:
        """Read what there is, and return whether that is all."""
        try:
            while more := os.read(self._reader, SEVERAL_ANSWERS):
                self._answer += more
        except BlockingIOError:
            return False
        return True


def _tell_unused(host: Host, writer: int) -> None:
    """Write the keys of the idle GPUs; one whose driver does not answer may be used."""
    # The broker does without.
    from amd_gpu_tracker.states.use import read_gpu_uses
    from amdgpu_discovery.discover import find_gpus
    from amdgpu_discovery.health.reading import read_health

    gpus = find_gpus(host)
    health = read_health(host, [str(gpu.pci_address) for gpu in gpus], with_errors=False)
    uses = read_gpu_uses(host, gpus, health)
    unknown = {address for address, each in health.items() if each.is_unknown or each.is_hanging}
    unused = [gpu.key for gpu in gpus if not uses[gpu.number].is_used and str(gpu.pci_address) not in unknown]
    os.write(writer, dumps(unused))
