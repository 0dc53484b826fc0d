"""Show the main job: containers under --runtime=amd and what they see. `demo.py [GPUS...]`, by default a few GPUs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.host import Host
from amdgpu_discovery.simulate import build_host
from support.busybox import build_rootfs, pack
from support.docker import IMAGE, Docker
from support.installed import our_program

PROFILE = "mi300x-8"


def main(requests: list[str]) -> int:
    """Start an engine, run one container for each request and stop the engine; 1 if a container did not start."""
    with tempfile.TemporaryDirectory(prefix="amd-demo-") as name:
        directory = Path(name)
        host = choose_host(directory)
        docker = Docker(our_program("amd-container-runtime"), host.root)
        try:
            say("Starting a Docker engine of our own: own socket, own data, no part of the machine's network ...")
            docker.start()
            docker.import_image(pack(build_rootfs(directory / "rootfs"), directory / "busybox.tar"))
            if requests:
                return 0 if all(show(docker, request) for request in requests) else 1
            return show_both_answers(docker, host)
        finally:
            docker.stop()


def choose_host(directory: Path) -> Host:
    """Return this machine if it has AMD GPUs, else a simulated one, and say which."""
    machine = Host("/")
    gpus = gpus_of(machine)
    if gpus:
        say(f"This machine has AMD GPUs: {gpus}.")
        return machine
    simulated = build_host(directory / "host", PROFILE)
    say(f"This machine has no AMD GPU. A SIMULATED host stands in for the driver: {gpus_of(simulated)}.")
    say("The engine, runc, the device cgroup and the container are real; only the GPUs behind the nodes are missing.")
    return simulated


def gpus_of(host: Host) -> str:
    try:
        found = find_gpus(host)
    except DriverUnavailable:
        return ""
    return ", ".join(f"{gpu.number} ({gpu.pci_address})" for gpu in found)


def show_both_answers(docker: Docker, host: Host) -> int:
    """Ask for GPUs that exist, reach for one more, ask for one that does not exist; 0 if the answers are right."""
    gpus = find_gpus(host)
    few = "0-2" if len(gpus) > 3 else "all"
    granted = show(docker, few)
    if few != "all":
        say(f"\nRoot in a container makes a node of GPU {gpus[-1].number} for itself, and the device cgroup says no:")
        granted &= show(docker, few, f"try-numbers 226:{gpus[-1].render_minor}", user="root")
    refused = not show(docker, str(len(gpus)))
    return 0 if granted and refused else 1


def show(docker: Docker, request: str, command: str = "list-gpus", *, user: str = "1000:1000") -> bool:
    """Run a container that asks for these GPUs, print what it sees or why it was refused; return whether it ran."""
    words = ("run", "--rm", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={request}", f"--user={user}", IMAGE)
    say(f"\n$ docker {' '.join(words)} {command}")
    ended = docker(*words, *command.split(), check=False)
    say((ended.stdout + ended.stderr.partition("\n\nRun 'docker")[0]).rstrip())
    return ended.returncode == 0


def say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
