"""Notice when GPUs are added, removed or partitioned.

The kernel sends events when a driver is bound and when a GPU is plugged in, but none when a GPU is partitioned. So
sysfs is read at an interval too. Without events (in a container, or without pyudev), only the interval works.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.driver.kfd_topology import read_generation
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host

Wait = Callable[[float], None]

PARTITION_ATTRIBUTES = ("current_compute_partition", "current_memory_partition")
NODE_DIRECTORIES = ("/dev/dri", "/sys/class/drm")
PAUSE_SECONDS = 0.2
LONGEST_BURST = 1000
SUBSYSTEMS = ("drm", "kfd", "pci")


def read_fingerprint(host: Host) -> tuple[object, ...]:
    """Return a value that changes whenever the GPUs of a host change; it costs a few reads of sysfs."""
    addresses = sorted(name for name in host.names(AMDGPU_PCI_DEVICES) if ":" in name)
    partitions = [
        host.read_attribute(f"{AMDGPU_PCI_DEVICES}/{address}/{attribute}")
        for address in addresses
        for attribute in PARTITION_ATTRIBUTES
    ]
    nodes = [tuple(sorted(host.names(directory))) for directory in NODE_DIRECTORIES]
    return (read_generation(host), *addresses, *partitions, *nodes, host.stat("/dev/kfd") is not None)


def find_waiting(host: Host) -> tuple[Wait, str]:
    """Return a function that waits some seconds, or until an event suggests a change.

    It comes with a sentence about why events cannot be received, "" if they can.
    """
    if not host.is_this_machine:
        return time.sleep, ""
    try:
        return _wait_for_events(), ""
    except ImportError:
        return time.sleep, "pyudev is not installed (pip install 'amd-ctk[udev]')"
    except OSError as error:
        return time.sleep, f"kernel events cannot be received: {reason(error)}"


def watch(host: Host, refresh: Callable[[], bool], *, wait: Wait, interval: float, rounds: int | None = None) -> None:
    """Call `refresh` now, whenever the GPUs change, and after each interval as long as it returns False.

    It ends after `rounds` checks, or never if that is None.
    """
    known: tuple[object, ...] | None = None
    while rounds is None or rounds > 0:
        # Read before the refresh, so that the next check sees a change during the refresh.
        current = read_fingerprint(host)
        if current != known:
            known = current if refresh() else None
        rounds = None if rounds is None else rounds - 1
        wait(interval)


def _wait_for_events() -> Wait:
    """Return a wait that kernel events interrupt; ImportError or OSError if they cannot be received."""
    import pyudev

    monitor: Any = pyudev.Monitor.from_netlink(pyudev.Context(), source="udev")
    for subsystem in SUBSYSTEMS:
        monitor.filter_by(subsystem)
    monitor.start()
    return lambda seconds: _drain(monitor, seconds)


def _drain(monitor: Any, seconds: float) -> None:
    """Wait for one event, then until events pause: a driver that loads sends dozens."""
    if monitor.poll(seconds) is not None:
        for _ in range(LONGEST_BURST):
            if monitor.poll(PAUSE_SECONDS) is None:
                return
