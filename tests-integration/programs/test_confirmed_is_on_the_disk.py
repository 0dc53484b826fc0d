"""What a command has changed when it ends survives a power cut: every change was written to the disk, and in order.

`nox -s power` cuts the power of a machine; here the calls are read that make it hold on every file system.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from amdgpu_simulator import build_host
from support.installed import engine_program, our_program

CONFIGURE = "runtime configure --no-validate --runtime-path=/usr/bin/amd-container-runtime"
# Each with the commands that go before it.
COMMANDS = {
    # The spec gets hooks.
    "gpu-tracker enable": ("cdi generate",),
    "gpu-tracker 0 exclusive": ("gpu-tracker enable",),
    "gpu-tracker 0 shared": ("gpu-tracker enable", "gpu-tracker 0 exclusive"),
    "gpu-tracker disable": ("gpu-tracker enable",),
    "gpu-tracker reset": ("gpu-tracker enable",),
    "gpu-tracker ignore 1000": ("gpu-tracker enable",),
    CONFIGURE: (),
    f"{CONFIGURE} --runtime=podman": (),
    f"{CONFIGURE} --runtime=podman --remove": (f"{CONFIGURE} --runtime=podman",),
    f"{CONFIGURE} --undo": (CONFIGURE,),
    "config set low-level-runtime crun": (),
    "config unset low-level-runtime": ("config set low-level-runtime crun",),
    "cdi generate": (),
    "cdi remove": ("cdi generate",),
}
# Only the path of a descriptor tells what was written; these are the calls by which files change their names.
TRACED = "trace=rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync"


class Trace(NamedTuple):
    """The calls of a command in their order; a sync of a directory counts for every change before it."""

    synced: tuple[tuple[int, str], ...]
    renamed: tuple[tuple[int, str, str], ...]
    removed: tuple[tuple[int, str], ...]

    def is_synced(self, path: str, *, after: int = -1, before: int = 1 << 30) -> bool:
        return any(found == path and after < position < before for position, found in self.synced)


@pytest.mark.parametrize("command", COMMANDS)
def test_changes_of_a_command_are_on_the_disk_when_it_ends(command, tmp_path):
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
    for words in COMMANDS[command]:
        subprocess.run([our_program("amd-ctk"), *words.split()], env=environment, stdout=subprocess.DEVNULL, check=True)

    seen = trace(command.split(), environment, tmp_path / "trace")

    kept = (f"{host.root}/etc/", f"{host.root}/var/lib/")
    renamed = [each for each in seen.renamed if each[2].startswith(kept)]
    removed = [each for each in seen.removed if each[1].startswith(kept) and not each[1].endswith((".tmp", ".lock"))]
    assert renamed or removed
    assert [old for position, old, _ in renamed if not seen.is_synced(old, before=position)] == []
    assert [new for position, _, new in renamed if not seen.is_synced(os.path.dirname(new), after=position)] == []
    assert [path for position, path in removed if not seen.is_synced(os.path.dirname(path), after=position)] == []


def trace(words: list[str], environment: dict[str, str], output: Path) -> Trace:
    """Run amd-ctk under strace, and return those of its calls that succeeded."""
    strace = (engine_program("strace"), "-f", "-qq", "-y", "-z", "-e", TRACED, "-o", output)
    subprocess.run([*strace, our_program("amd-ctk"), *words], env=environment, check=True)
    lines = [line.split(maxsplit=1)[1] for line in output.read_text().splitlines() if "(" in line]
    calls = [(position, line.partition("(")[0], line) for position, line in enumerate(lines)]
    return Trace(
        synced=tuple((at, line.partition("<")[2].partition(">")[0]) for at, name, line in calls if "sync" in name),
        renamed=tuple((at, *line.split('"')[1::2]) for at, name, line in calls if name.startswith("rename")),
        removed=tuple((at, line.split('"')[1]) for at, name, line in calls if name.startswith("unlink")),
    )
