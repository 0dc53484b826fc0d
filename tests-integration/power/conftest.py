"""One machine, saved while it runs, from which every cut of this session begins."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.image import kernel_image
from power.saved import Saved, save_machine
from power.tally import table
from support.installed import require_programs, require_root

PROGRAMS = ("qemu-system-x86_64", "mkfs.ext4", "debootstrap", "depmod", "modprobe", "cpio", "runc")
# A copy of the disk for each cut, which is forgotten at once.
IN_MEMORY = "/dev/shm"


@pytest.fixture(scope="session")
def saved() -> Iterator[Saved]:
    """Return a machine as it is before every cut."""
    require_root()
    require_programs(*PROGRAMS)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        yield save_machine(kernel_image("bookworm"), Path(directory))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of docs/maintain/endurance.md."""
    for line in table():
        terminalreporter.write_line(line)
