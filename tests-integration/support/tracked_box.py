"""A box that appears as a GPU server, with the toolkit installed and the tracker enabled."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from amd_gpu_tracker.errors import NotDone
from support.box import USER, Box, add_user, nodes_of
from support.debs import install_toolkit
from support.docker import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pytest

    from amdgpu_discovery.host import Host

LEASES = "/run/amd-container-toolkit/leases"
LEASES_OF_THE_USER = "/run/user/1100/amd-container-toolkit/leases"
SPEC = "/etc/cdi/amd.json"
# Rows of the table in docs/reference/engines.md.
CLAIMS = "GPU Tracker: `--device amd.com/gpu=0` is seen"
REFUSES = "GPU Tracker: an exclusive GPU in use is refused"
REASON_ELSEWHERE = "yes, reason in `gpu-tracker refused`"
STATE = "/var/lib/amd-container-toolkit"


@contextmanager
def keep_boxes(
    make: Callable[[str, Path], AbstractContextManager[TrackedBox]], directories: pytest.TempPathFactory
) -> Iterator[Callable[[str], TrackedBox]]:
    """Yield a function that returns the box of a Debian release, made at its first call for that release."""
    boxes: dict[str, TrackedBox] = {}
    with ExitStack() as stack:

        def find(suite: str) -> TrackedBox:
            if suite not in boxes:
                boxes[suite] = stack.enter_context(make(suite, directories.mktemp(suite)))
            return boxes[suite]

        yield find


class TrackedBox(Box):
    """Use it as a context manager, like any box."""

    def __init__(
        self, root: Path, directory: Path, host: Host, spec: bytes, debs: Path, *, cgroup2: bool = False
    ) -> None:
        super().__init__(str(root), directory, nodes_of(spec), hardware=host.root, cgroup2=cgroup2)
        self._debs = debs

    def prepare(self) -> None:
        """Install the toolkit and enable the tracker."""
        # The share outlives the box, as a disk outlives a boot.
        self("mkdir", "-p", "/box/state", STATE)
        self("mount", "--bind", "/box/state", STATE)
        add_user(self)
        install_toolkit(self, self._debs)
        self.tracker("enable")
        self("amd-ctk", "cdi", "generate")

    def tracker(self, *words: str) -> str:
        """Run `amd-ctk gpu-tracker` as root and return its output, even if not everything was done."""
        ended = self("amd-ctk", "gpu-tracker", *words, check=False)
        if ended.returncode not in (0, NotDone.exit_code):
            raise EngineError(f"amd-ctk gpu-tracker {' '.join(words)}: {ended.stderr}")
        return ended.stdout

    def users(self) -> dict[int, list[tuple[str, list[str]]]]:
        """Return the containers of each GPU, and the ways by which they got it."""
        status = json.loads(self.tracker("status", "--json"))
        return {
            gpu["number"]: [(use["container_id"], use["ways"]) for use in gpu["containers"]] for gpu in status["gpus"]
        }

    def leases(self, directory: str = LEASES, *, user: str = "") -> list[str]:
        """Return the containers that have a lease."""
        names = self("sh", "-c", f"ls {directory}", user=user).stdout.split()
        return [name.partition("@")[0] for name in names]

    def leases_of_the_user(self) -> list[str]:
        """Return the containers with leases of the user without privileges."""
        return self.leases(LEASES_OF_THE_USER, user=USER)

    def hooks(self) -> Iterator[str]:
        """Return the moments for which the CDI spec has hooks."""
        spec = json.loads(self("cat", SPEC).stdout)
        return (hook["hookName"] for hook in spec.get("containerEdits", {}).get("hooks", []))
