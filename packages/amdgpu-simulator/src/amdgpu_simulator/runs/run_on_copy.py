"""Run a command on a copy of a simulated host: `python -m amdgpu_simulator.runs.run_on_copy ROOT PROFILE COMMAND...`.

A host that lies over the machine has mount points in its directory, so a second command needs a new one.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile

from amdgpu_discovery.host import Host
from amdgpu_simulator.profile_files import load_profile
from amdgpu_simulator.runs.laid import numbers_of_nodes
from amdgpu_simulator.runs.run import run_on


def main() -> None:
    """Copy the host, run the command on the copy, and exit with the status of the command."""
    root, profile, *argv = sys.argv[1:]
    numbers = numbers_of_nodes(load_profile(profile))
    with tempfile.TemporaryDirectory(prefix="amd-host-") as directory:
        copy = Host(shutil.copytree(root, f"{directory}/host", symlinks=True, copy_function=_copy_file))
        # A lost GPU has no nodes.
        left = {name: number for name, number in numbers.items() if copy.stat(f"/dev/{name}")}
        run_on(copy, left, argv)


def _copy_file(source: str, target: str) -> str:
    """Copy a file, or a named pipe: reading an attribute of a driver that hangs never ends."""
    if not stat.S_ISFIFO(os.lstat(source).st_mode):
        return shutil.copy2(source, target)
    os.mkfifo(target)
    return target


if __name__ == "__main__":
    main()
