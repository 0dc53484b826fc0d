"""Builds a simulated host from a profile."""

from __future__ import annotations

import os
from collections.abc import Collection

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import Profile, ProfileError
from amdgpu_simulator.hosts.activity import add_health, add_idle
from amdgpu_simulator.hosts.kfd_sysfs import NODES, add_kfd, add_links
from amdgpu_simulator.hosts.links import link_nodes
from amdgpu_simulator.hosts.pci_sysfs import add_drm, add_pci
from amdgpu_simulator.hosts.placement import place_host
from amdgpu_simulator.hosts.processes import add_processes
from amdgpu_simulator.hosts.tree import Tree, write_tree
from amdgpu_simulator.profile_files import load_profile

# This file is in the root of every host that was built here, and nowhere else.
MARK = ".simulated-host"

# Directories below which programs of the project may write.
DIRECTORIES = ("/etc", "/run", "/var/lib", "/var/log", "/tmp")  # noqa: S108 - of the simulated host

# What fits into a function's header (linux/pci_regs.h), the platform devices of a driver (amdgpu_xcp_drv.c), and
# modes and groups of files.
LARGEST = {
    **dict.fromkeys(("vendor_id", "device_id", "subsystem_vendor", "subsystem_device"), 0xFFFF),
    "revision": 0xFF,
    "pci_class": 0xFFFFFF,
    "xcp_devices": 64,
    **dict.fromkeys(("card_mode", "render_mode"), 0o7777),
    **dict.fromkeys(("card_group", "render_group"), 0xFFFFFFFE),
}


class BuildError(ToolkitError):
    """No host can be built in this directory."""

    exit_code = 5


def build_host(directory: str | os.PathLike[str], profile: str | Profile, *, bare: bool = False) -> Host:
    """Build a host in `directory` and return it; `profile` is a name, a file or a value.

    A host that was built in `directory` earlier is replaced. Raises BuildError for a directory that holds anything
    else, and ProfileError for an unknown or impossible profile; then nothing is written. A `bare` host is made faster:
    KFD's nodes do not list their links, of which 63 partitions have 4000, and GPUs show no idle values, only what the
    profile says of their health and processes.
    """
    described = profile if isinstance(profile, Profile) else load_profile(profile)
    tree = build_tree(described, bare=bare)
    root = os.path.abspath(directory)
    try:
        _clear(root)
        write_tree(tree, root)
    except OSError as error:
        raise BuildError(f"no host can be built in {root}: {reason(error)}") from error
    return Host(root)


def build_tree(profile: Profile, *, bare: bool = False) -> Tree:
    """Return every file of a host."""
    _check_numbers(profile)
    _check_attributes(profile)
    placed = place_host(profile)
    tree = Tree()
    tree.add_file(f"/{MARK}", f"{profile.name}\n".encode())
    for path in DIRECTORIES:
        tree.add_directory(path)
    tree.add_directory("/dev/dri")
    tree.add_link("/var/run", "/run")
    add_pci(tree, profile, placed)
    add_drm(tree, profile.access, placed)
    driver = profile.driver
    if driver and driver.kfd_major is not None:
        links = link_nodes(profile, placed)
        add_kfd(tree, profile, driver, placed, links)
        if not bare:
            add_links(tree, driver, links)
    if driver:
        if not bare:
            add_idle(tree, placed)
        if profile.processes:
            add_processes(tree, profile, placed)
        add_health(tree, placed)
    for path in tree.entries:
        if os.path.normpath(path) != path or "\0" in path:
            raise ProfileError(f"{path!r} is not a valid path on a host", hint="use names without .. in the profile")
    return tree


def _check_numbers(profile: Profile) -> None:
    """Refuse numbers that no function and no node can have; ProfileError."""
    for part in (profile.access, *(gpu.model for gpu in profile.gpus), *profile.foreign):
        for name, largest in LARGEST.items():
            if not 0 <= (number := getattr(part, name, 0)) <= largest:
                raise ProfileError(f"{name} of a profile cannot be {number}", hint=f"choose one up to {largest}")


def _check_attributes(profile: Profile) -> None:
    """Refuse attributes that lie outside of a function, or that identify its device; ProfileError."""
    for gpu in profile.gpus:
        for name in (*gpu.health, *gpu.model.attributes, *gpu.model.idle):
            parts = name.split("/")
            if parts[0] == "drm" or "uevent" in parts or any(part in ("", ".", "..") for part in parts):
                hint = "name a file such as ras/umc_err_count, and none in drm or named uevent"
                raise ProfileError(f"{name!r} is not an attribute that a profile can have", hint=hint)


def _clear(root: str) -> None:
    """Leave an empty directory at `root`; BuildError if it has anything that was not made here."""
    import shutil

    os.makedirs(root, exist_ok=True)
    names = os.listdir(root)
    if names and MARK not in names:
        raise BuildError(f"{root} is not empty and not a simulated host", hint="name a new or empty directory")
    for name in names:
        path = os.path.join(root, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def hide_gpus(host: Host, numbers: Collection[int]) -> None:
    """Make the KFD nodes of the GPUs with these `numbers` unreadable.

    Root can still read them, unless it lacks CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
    """
    hidden = [gpu for gpu in locate_gpus(host) if gpu.number in numbers]
    # Only the files of a node; all may list its directories.
    for path, _, names in (each for gpu in hidden for each in os.walk(host.path(f"{NODES}/{gpu.kfd_node}"))):
        for name in names:
            os.chmod(os.path.join(path, name), 0)
