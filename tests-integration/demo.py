"""Show the main job: containers under --runtime=amd and what they see. `demo.py [GPUS...]`, by default a few GPUs.

If AMD_DEMO_OBSTACLE says why no container can be started, or the engine does not start, demo_bundle.py shows the rest.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import DriverUnavailable, RequestError
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from demo_bundle import BundleDemo
from support.busybox import build_rootfs, pack
from support.docker import IMAGE, Docker, EngineError
from support.installed import our_program
from support.interrupts import Interrupts

PROFILE = "mi300x-8"
USAGE_ERROR = 2
HOW_TO_START = "In a container started with --privileged, and on a virtual machine, ./demo starts real containers."
NEXT = "Next: './install' on a machine with AMD GPUs, and 'amd-ctk doctor' there; './check' runs the tests here."


def main(requests: list[str]) -> int:
    """Show what was asked for; 1 if a container did not start, 2 if a request cannot be met, 128 + N after signal N."""
    interrupts = Interrupts()
    try:
        with tempfile.TemporaryDirectory(prefix="amd-demo-", dir="/tmp") as directory:
            return run(Path(directory), interrupts, requests)
    except RequestError as error:
        print(f"demo: {error}", file=sys.stderr)
        return USAGE_ERROR
    except Exception:
        # What fails because its processes were interrupted too is no fault.
        if not interrupts.noted:
            raise
        return 128 + interrupts.noted
    finally:
        interrupts.ignore()


def run(directory: Path, interrupts: Interrupts, requests: list[str]) -> int:
    """Show containers, or all but containers where none can be started, and the next step."""
    answer = show(directory, interrupts, requests)
    interrupts.print(f"\n{NEXT}")
    return answer


def show(directory: Path, interrupts: Interrupts, requests: list[str]) -> int:
    obstacle = os.environ.get("AMD_DEMO_OBSTACLE", "")
    if not obstacle:
        try:
            return Demo(directory, interrupts).run(requests)
        # The second: an engine is not installed, and nobody here could install it.
        except (EngineError, FileNotFoundError) as error:
            interrupts.check()
            obstacle = f"the engine does not start ({str(error).strip().splitlines()[-1]})"
    interrupts.print(f"No container can be started here: {obstacle}.\n{HOW_TO_START}")
    return BundleDemo(directory, interrupts).run(requests)


class Demo:
    """One run: a host that has GPUs, and an engine that serves it."""

    def __init__(self, directory: Path, interrupts: Interrupts) -> None:
        self._directory = directory
        self._interrupts = interrupts
        self._print = interrupts.print
        self._host = self._choose_host()
        self._gpus = find_gpus(self._host)

    def run(self, requests: list[str]) -> int:
        """Start an engine, run one container for each request and stop the engine; RequestError before that."""
        for request in requests:
            select_gpus(self._gpus, request)
        docker = Docker(our_program("amd-container-runtime"), self._host.root, f"{self._directory}")
        try:
            self._start(docker)
            if requests:
                return 0 if all(self._show(docker, request) for request in requests) else 1
            return self._show_both_answers(docker)
        finally:
            self._print("\nStopping the engine and removing what it has written ...")
            docker.stop()

    def _choose_host(self) -> Host:
        """Return this machine if it has AMD GPUs, else a simulated one, and say which."""
        machine = Host("/")
        gpus = _gpus_of(machine)
        if gpus:
            self._print(f"This machine has AMD GPUs: {gpus}.")
            return machine
        simulated = build_host(self._directory / "host", PROFILE)
        self._print(
            f"This machine has no AMD GPU. A SIMULATED host stands in for the driver: {_gpus_of(simulated)}.\n"
            "The engine, runc, the device cgroup and the container are real; the GPUs behind the nodes are not."
        )
        return simulated

    def _start(self, docker: Docker) -> None:
        self._print("Starting a Docker engine: own socket, own data, no part of the machine's network ...")
        docker.start(meanwhile=self._interrupts.check)
        self._print("Making an image of this machine's busybox ...")
        docker.import_image(pack(build_rootfs(self._directory / "rootfs"), self._directory / "busybox.tar"))

    def _show_both_answers(self, docker: Docker) -> int:
        """Ask for GPUs that exist, reach for one more, ask for one that does not exist; 0 if the answers are right."""
        few = "0-2" if len(self._gpus) > 3 else "all"
        granted = self._show(docker, few)
        if few != "all":
            last = self._gpus[-1]
            self._print(
                f"\nRoot in a container makes a node of GPU {last.number} for itself, and the device cgroup says no:"
            )
            granted &= self._show(docker, few, f"try-numbers 226:{last.render_minor}", user="root")
        refused = not self._show(docker, str(len(self._gpus)))
        return 0 if granted and refused else 1

    def _show(self, docker: Docker, request: str, command: str = "list-gpus", *, user: str = "1000:1000") -> bool:
        """Run a container that asks for these GPUs, print what it sees or why it was refused; return whether it ran."""
        self._interrupts.check()
        words = ("run", "--rm", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={request}", f"--user={user}", IMAGE)
        self._print(f"\n$ docker {' '.join(words)} {command}")
        ended = docker(*words, *command.split(), check=False)
        self._print((ended.stdout + ended.stderr.partition("\n\nRun 'docker")[0]).rstrip())
        return ended.returncode == 0


def _gpus_of(host: Host) -> str:
    try:
        found = find_gpus(host)
    except DriverUnavailable:
        return ""
    return ", ".join(f"{gpu.number} ({gpu.pci_address})" for gpu in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
