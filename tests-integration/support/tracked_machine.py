"""A simulated host, and processes that live and die as a test says; the fixtures of all tests about reservations."""

from __future__ import annotations

import copy
import json
import os
import posix
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from amd_gpu_tracker.book.lease import TICKS_PER_SECOND, Holder
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from support.enabled_tracker import enable


class Machine:
    """A simulated host with a /proc of its own; containers are made step by step, as engines and runtimes do."""

    def __init__(self, directory: Path, profile: str) -> None:
        self.directory = directory
        self.host = build_host(directory / "host", profile, bare=True)
        self.state = State(self.host)
        self.proc = directory / "proc"
        (self.proc / "self" / "ns").mkdir(parents=True)
        for name, link in (("pid", "pid:[4026531836]"), ("mnt", "mnt:[1]"), ("user", "user:[1]")):
            (self.proc / "self" / "ns" / name).symlink_to(link)
        self.boots = 0
        self.pids = count(101)
        self.user: int | None = None
        self.replaced = 0
        self.lost_paths: list[str] = []
        self.boot()

    def boot(self) -> None:
        """Start the machine again: no process, no file of the tracker in /run, another boot id."""
        self.boots += 1
        for process in self.proc.glob("[0-9]*"):
            shutil.rmtree(process)
        for directory in ("/run/amd-container-toolkit", "/run/user"):
            shutil.rmtree(self.host.path(directory), ignore_errors=True)
        kernel = self.proc / "sys" / "kernel" / "random"
        kernel.mkdir(parents=True, exist_ok=True)
        (kernel / "boot_id").write_text(f"boot-{self.boots}\n")
        self.start_process(1)
        self.start_process(os.getpid())

    @property
    def processes(self) -> Processes:
        return Processes(str(self.proc))

    @property
    def book(self) -> Book:
        return Book(self.state, self.processes, LibraryLock)

    @property
    def tracker(self) -> Tracker:
        return Tracker(self.host, processes=self.processes, lock_timeout=2)

    def start_process(
        self, pid: int = 0, *, parent: int = 1, seconds_ago: float = 0, state: str = "S", uid: int | None = None
    ) -> int:
        """Start a process and return its id; /proc says whose it is if `uid` does, or on a machine of a user."""
        pid = pid or next(self.pids)
        start = int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds_ago) * TICKS_PER_SECOND)
        fields = [state, str(parent), *["0"] * 17, str(start), *["0"] * 20]
        directory = self.proc / str(pid)
        directory.mkdir(exist_ok=True)
        (directory / "stat").write_text(f"{pid} (a name) with (brackets) {' '.join(fields)}\n")
        owner = self.user if uid is None else uid
        if owner is not None:
            (directory / "status").write_text(f"Name:\ta name\nUid:\t{owner}\t0\t0\t0\n")
        return pid

    def start_program(
        self, program: str, *words: str, cwd: str = "/", mounts: str = "mnt:[1]", uids: str = "", **environment: str
    ) -> int:
        """Start a process of root (of the user who runs the tests) that serves this host, as an engine's do."""
        pid = self.start_process()
        directory = self.proc / str(pid)
        (directory / "exe").symlink_to(program)
        (directory / "cwd").symlink_to(cwd)
        (directory / "ns").mkdir()
        (directory / "ns" / "mnt").symlink_to(mounts)
        (directory / "ns" / "user").symlink_to("user:[1]")
        (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        variables = {"AMD_CTK_HOST_ROOT": self.host.root, **environment}
        (directory / "environ").write_bytes(b"".join(f"{n}={v}".encode() + b"\0" for n, v in variables.items()))
        (directory / "status").write_text(f"Name:\tx\nUid:\t{uids or chr(9).join([str(os.geteuid())] * 4)}\n")
        return pid

    def run_untracked(self, container_id: str, *gpus: int, root: str = "/run/runc", **spec: Any) -> int:
        """Run a container that claimed nothing, under a runc that keeps its state in `root`; return its init."""
        init = self.start_process()
        nodes = [
            {"path": f"/dev/dri/renderD{gpu.render_minor}", "type": "c", "major": 226, "minor": gpu.render_minor}
            for gpu in locate_gpus(self.host)
            if gpu.number in gpus
        ]
        bundle = self.directory / "bundles" / container_id
        bundle.mkdir(parents=True)
        write_own(bundle / "config.json", {"linux": {"devices": nodes, "namespaces": [{"type": "pid"}]}, **spec})
        process = self.processes.find(init)
        assert process is not None
        state = {"init_process_pid": init, "init_process_start": process.start}
        directory = Path(self.host.path(root) if root.startswith("/run/") else root, container_id)
        directory.mkdir(parents=True)
        write_own(directory / "state.json", {**state, "config": {"labels": ["x=y", f"bundle={bundle}"]}})
        return init

    def kill(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def renumber_cards(self) -> None:
        """Give every card the number above its own, as when a framebuffer takes card0 at boot."""
        drm = self.host.path("/sys/class/drm")
        cards = [int(name[4:]) for name in os.listdir(drm) if name.startswith("card") and name[4:].isdecimal()]
        for card in sorted(cards, reverse=True):
            os.rename(f"{drm}/card{card}", f"{drm}/card{card + 1}")

    def replace_gpu(self) -> None:
        """Put another GPU into the slot of the first one, for which KFD takes one away and adds another."""
        self.replaced += 1
        self.count_generation()
        path = self.host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/unique_id")
        Path(path).write_text(f"{self.replaced:016x}\n")

    def lose(self, *numbers: int) -> None:
        """Take GPUs off the bus, with all that is on their boards; the others keep their minors and nodes."""
        gpus = locate_gpus(self.host)
        addresses = {str(gpu.pci_address) for gpu in gpus if gpu.number in numbers}
        paths = [f"/sys/bus/pci/devices/{address}" for address in addresses]
        paths += [f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}" for address in addresses]
        for gpu in gpus:
            if str(gpu.pci_address) in addresses:
                paths.append(f"/sys/class/kfd/kfd/topology/nodes/{gpu.kfd_node}")
                paths += [f"/sys/class/drm/renderD{gpu.render_minor}", f"/sys/class/drm/card{gpu.card_minor}"]
        for path in paths:
            os.rename(self.host.path(path), self.directory / f"lost{len(self.lost_paths)}")
            self.lost_paths.append(path)
        self.count_generation()

    def bring_back(self) -> None:
        """Put back what was lost."""
        for place, path in enumerate(self.lost_paths):
            os.rename(self.directory / f"lost{place}", self.host.path(path))
        self.lost_paths.clear()
        self.count_generation()

    def count_generation(self) -> None:
        """Do what KFD does whenever its nodes change."""
        generation = Path(self.host.path("/sys/class/kfd/kfd/topology/generation_id"))
        generation.write_text(f"{int(generation.read_text()) + 2}\n")

    def holder(self, container_id: str, *, creator: int, **fields: Any) -> Holder:
        process = self.processes.find(creator)
        assert process is not None
        return Holder(**{"container_id": container_id, "root": "/run/runc", "creator": process, **fields})

    def claim(self, container_id: str, request: list[int], *, creator: int, **fields: Any) -> bool:
        """Reserve as the runtime does, in the process `creator`."""
        return self.claim_of(container_id, request, **fields)(creator)

    def claim_of(self, container_id: str, request: list[int], **fields: Any) -> Callable[[int], bool]:
        """Locate GPUs as the runtime does; return what reserves them for a process."""
        ways = fields.pop("ways", ("env",))
        creators = fields.pop("creators", ())
        gpus = locate_gpus(self.host, board_ids=False)

        def reserve_for(creator: int) -> bool:
            claim = Claim(
                holder=self.holder(container_id, creator=creator, **fields),
                wanted=[gpus[number] for number in request],
                ways=ways,
                creators=creators,
            )
            return reserve(self.book, claim)

        return reserve_for

    def create(self, container_id: str, request: list[int]) -> int:
        """Make a container from claim to the end of `create`; return the pid of its init."""
        creator = self.start_process()
        pid_file = self.directory / f"{container_id}.pid"
        try:
            assert self.claim(container_id, request, creator=creator, pid_file=str(pid_file))
        except GpusRefused:
            self.kill(creator)
            raise
        init = self.start_process()
        pid_file.write_text(str(init))
        self.kill(creator)
        return init

    def poststop(self, container_id: str) -> None:
        release(self.book, container_id)

    def users(self) -> dict[int, list[str]]:
        """Return the containers of each GPU that status shows."""
        return {gpu.number: [use.container_id for use in gpu.containers] for gpu in self.tracker.status().gpus}

    def as_rootless_user(self) -> Machine:
        """Return this machine as a user without privileges has it."""
        user = copy.copy(self)
        # Files of a simulated host belong to the user who runs the tests.
        user.user = os.geteuid()
        user.state = State(self.host, self.host.path("/run/user/1000/amd-container-toolkit"))
        return user

    def lease_files(self) -> list[str]:
        return sorted(os.path.basename(path) for path in self.state.lease_paths())


def write_own(path: Path, document: object) -> None:
    """Write JSON into a file that nobody else may write."""
    path.write_text(json.dumps(document))
    path.chmod(0o644)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return four MI210 with the tracker enabled."""
    made = Machine(tmp_path, "mi210-4")
    made.tracker.enable()
    return made


@pytest.fixture
def untracked(tmp_path: Path) -> Machine:
    """Return four MI210 on which the tracker was never enabled."""
    return Machine(tmp_path, "mi210-4")


@pytest.fixture
def machine_of(tmp_path: Path) -> Callable[..., Machine]:
    """Return a function that makes a machine of any profile, untracked."""

    def make(profile: str, directory: Path | None = None) -> Machine:
        return Machine(directory or tmp_path, profile)

    return make


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of what is read from now on."""
    sizes: list[int] = []
    real = posix.read

    def read(descriptor: int, most: int) -> bytes:
        content = real(descriptor, most)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(posix, "read", read)
    return sizes


@pytest.fixture
def exclusive_host(tmp_path: Path) -> Host:
    """Return four exclusive MI210."""
    built = build_host(tmp_path / "host", "mi210-4", bare=True)
    enable(built, exclusive=True)
    return built


@pytest.fixture
def time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that sets the time zone until the test ends."""
    with monkeypatch.context() as changed:

        def set_zone(name: str) -> None:
            changed.setenv("TZ", name)
            time.tzset()

        yield set_zone
    time.tzset()
