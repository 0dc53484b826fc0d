"""A machine whose kernel limits the memory of two simulated GPUs, and containers that allocate it."""

from __future__ import annotations

from kernel.containers import ON_SIMULATED_HOST, SIMULATED_HOST
from kernel.engines import IMAGE, NO_NETWORK
from kernel.machine import Machine

# As those of GPUs 0 and 1 of the simulated host.
ADDRESSES = ("0000:03:00.0", "0000:26:00.0")
REGIONS = tuple(f"drm/{address}/vram" for address in ADDRESSES)
CGROUPS = "/sys/fs/cgroup"
# The simulated host has the machine's cgroups. What is mounted over them there must not cover the machine's own.
BIND_CGROUPS = (
    f"mkdir -p {SIMULATED_HOST}{CGROUPS} && mount --bind {CGROUPS} {SIMULATED_HOST}{CGROUPS}"
    f" && mount --make-private {SIMULATED_HOST}{CGROUPS}"
)
MODULE = "/srv/gpu_memory.ko"
LOG = f"{SIMULATED_HOST}/var/log/amd-container-runtime.log"
# What the settings of limits are before each test.
SETTINGS = {"vram-limit": "asked", "vram-maximum": "0", "low-level-runtime": "runc"}
# For dockerd: the kernel has none of its protocols.
WITHOUT_INTERNET = "--ip-forward=false"
OPTIONS = f"--runtime=amd {NO_NETWORK} --security-opt=apparmor=unconfined"


def load_regions(machine: Machine, *addresses: str) -> None:
    """Let the kernel have the memory of the boards at these addresses, and no other."""
    machine.run(f"rmmod gpu_memory 2>/dev/null; insmod {MODULE} addresses={','.join(addresses)}")


def configure(machine: Machine, **settings: str | int) -> None:
    """Change settings of the runtime; all others of limits are as they come."""
    changed = SETTINGS | {name.replace("_", "-"): str(value) for name, value in settings.items()}
    words = (f"{ON_SIMULATED_HOST} amd-ctk config set {name} {value}" for name, value in changed.items())
    machine.run(" && ".join(words))


class Containers:
    """Docker's containers in the machine."""

    def __init__(self, machine: Machine, docker: str) -> None:
        """Prepare calls of the words `docker`, which are a command with its socket."""
        self._machine = machine
        self._docker = docker

    def run(self, words: str) -> str:
        """Run a container and return what it and Docker said."""
        return self._machine.run(f"{self._docker} run --rm {OPTIONS} {words}", check=False)

    def start(self, name: str, words: str) -> None:
        """Start a container that waits."""
        self._machine.run(f"{self._docker} run --detach --name={name} {OPTIONS} {words} {IMAGE} sleep 1000000")

    def do(self, words: str) -> str:
        """Run a command of Docker."""
        return self._machine.run(f"{self._docker} {words}")

    def allocate(self, name: str, node: str, *sizes: str) -> list[str]:
        """Return what the kernel says to each piece of memory; the container keeps what it gets."""
        return self.do(f"exec {name} allocate {node} {' '.join(sizes)}").splitlines()

    def remove_all(self) -> None:
        """Remove every container, with what it holds."""
        self._machine.run(f"{self._docker} ps --all --quiet | xargs -r {self._docker} rm --force", check=False)
