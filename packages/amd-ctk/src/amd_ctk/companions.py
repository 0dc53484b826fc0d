"""The companions of amd-ctk: distributions that have some of its commands, and may not be installed."""

from __future__ import annotations

import os
import sys

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

SIMULATOR = "amdgpu-simulator"
IMAGE_READER = "amd-gpu-images"
SHARING = "amd-gpu-sharing"
# The module of each command that a companion has, and the companion.
COMMANDS = {
    "image": ("amd_gpu_images.cli", IMAGE_READER),
    "simulate": ("amdgpu_simulator.cli", SIMULATOR),
    "queue": ("amd_gpu_sharing.cli.queue", SHARING),
    "reserve": ("amd_gpu_sharing.cli.reserve", SHARING),
    "keep": ("amd_gpu_sharing.cli.reserve", SHARING),
    "end": ("amd_gpu_sharing.cli.reserve", SHARING),
    "release": ("amd_gpu_sharing.cli.reserve", SHARING),
    "report": ("amd_gpu_sharing.cli.report", SHARING),
    "usage": ("amd_gpu_sharing.cli.usage", SHARING),
    "users": ("amd_gpu_sharing.cli.users", SHARING),
}
PACKAGES = {SIMULATOR: "amdgpu_simulator", IMAGE_READER: "amd_gpu_images", SHARING: "amd_gpu_sharing"}
# Debs and rpms put the toolkit there.
PACKAGED = "/usr/lib/amd-container-toolkit"
APT = "/usr/bin/apt-get"


class NotInstalled(ToolkitError):
    """A companion that has what was asked for is not installed."""

    exit_code = 13

    def __init__(self, distribution: str) -> None:
        """Report which distribution is missing."""
        super().__init__(f"{distribution} is not installed", hint=how_to_install(distribution))
        self.distribution = distribution


def is_installed(distribution: str) -> bool:
    """Return whether a companion is installed where this program is."""
    package = PACKAGES[distribution]
    if package in sys.modules:
        return sys.modules[package] is not None
    # importlib.util has this as a function, and loads six modules for it.
    return any(finder.find_spec(package, None) is not None for finder in sys.meta_path)


def require(distribution: str) -> None:
    """Raise NotInstalled if a companion is not installed."""
    if not is_installed(distribution):
        raise NotInstalled(distribution)


def module_of(command: str) -> Any:
    """Import the module that has a companion's command; NotInstalled."""
    module, distribution = COMMANDS[command]
    require(distribution)
    __import__(module)
    return sys.modules[module]


def how_to_install(distribution: str) -> str:
    """Return how a distribution is installed that belongs to this installation, as a hint."""
    return f"run '{install_command(distribution)}'{'' if _is_packaged() else ' in the clone'}"


def warn_of_rules(host: Host) -> None:
    """Print that rules for people are not applied, if the host has some and amd-gpu-sharing is not installed."""
    if is_installed(SHARING):
        return
    from amd_ctk.shares_gpus import needs_sharing
    from amdgpu_discovery.command_line.standard_output import print_error

    if needs_sharing(host):
        print_error(f"{SHARING} is not installed: rules for people are not applied ({how_to_install(SHARING)})")


def install_command(distribution: str) -> str:
    """Return the command that installs a distribution as this one was: from packages, or by pip from a clone."""
    if not _is_packaged():
        return f"pip install --find-links dist {distribution}"
    return f"sudo {'apt' if os.path.exists(APT) else 'dnf'} install {distribution}"


def _is_packaged() -> bool:
    return os.path.abspath(__file__).startswith(f"{PACKAGED}/")
