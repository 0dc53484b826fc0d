"""pytest's marker and fixture `amd_host`: a test runs programs on a simulated GPU server.

pytest loads this module at each start, so it imports nothing of the simulator before a test uses the fixture.
"""

from __future__ import annotations

from pathlib import Path

import pytest

DEFAULT = "mi300x-8"
MARKER = f"amd_host(profile): the server of the fixture amd_host; without it, the server is {DEFAULT}"
HELP = "what amd_host.run does where no namespace can be made: skip the test, or fail (require)"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --amd-host."""
    parser.getgroup("amd").addoption("--amd-host", choices=("skip", "require"), default="skip", help=HELP)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def amd_host(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """Return a simulated server: `run([...])` runs a program on it, `path` is its root, `break_` breaks a GPU."""
    from amdgpu_simulator.runs.server import SimulatedServer

    marker = request.node.get_closest_marker("amd_host")
    profile = marker.args[0] if marker and marker.args else DEFAULT
    is_required = request.config.getoption("--amd-host") == "require"
    return SimulatedServer(tmp_path / "amd-host", profile, refuse=pytest.fail if is_required else pytest.skip)
