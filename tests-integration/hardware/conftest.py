"""The GPUs of this machine; without any, every test is skipped with the reason."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amdgpu_discovery import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host, host_from_environment
from support.bare_runtime import BareRuntime
from support.installed import engine_program, our_program, require_root

# What a report of a machine consists of, beside what pytest prints.
REPORT = Path(os.environ.get("AMD_HARDWARE_REPORT", "hardware-report"))


@pytest.fixture(scope="session")
def host() -> Host:
    """Return this machine; AMD_CTK_HOST_ROOT names a simulated one, to try the tests themselves."""
    return host_from_environment(os.environ)


@pytest.fixture(scope="session")
def gpus(host: Host) -> list[Gpu]:
    """Return all GPUs that can compute."""
    try:
        found = list(find_gpus(host))
    except ToolkitError as error:
        pytest.skip(f"this host has no AMD GPU to test: {error}")
    if not found:
        pytest.skip("this host has no AMD GPU that can compute")
    return found


@pytest.fixture
def runtime(gpus: list[Gpu], host: Host, tmp_path: Path, rootfs: Path) -> Iterator[BareRuntime]:
    """Return our runtime in front of runc; users of containers may come to its directories, which pytest closes."""
    require_root()
    for directory in (tmp_path, rootfs.parent, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in directory.parents:
            directory.chmod(0o711)
    made = BareRuntime(our_program("amd-container-runtime"), tmp_path, rootfs, host.root, engine_program("runc"))
    yield made
    made("delete", "--force", "c1")
