"""A simulated host, and processes that live and die as a test says."""

from __future__ import annotations

# pytest finds fixtures by these names.
from support.tracked_machine import (  # noqa: F401
    bytes_read,
    exclusive_host,
    machine,
    machine_of,
    time_zone,
    untracked,
)
