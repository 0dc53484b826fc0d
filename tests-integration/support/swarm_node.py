"""Nodes of a Docker Swarm on one machine: engines with their own networks and names, joined by a cable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from amdgpu_discovery.host import Host
from support.docker import IMAGE, Docker
from support.installed import our_program
from support.simulated import without_note

# Long enough for a busy machine.
SECONDS = 300.0
# A shell without signal handlers would delay the end of tasks by ten seconds.
TASK_OPTIONS = ("--detach", "--stop-grace-period=100ms", "--restart-delay=500ms", "--no-resolve-image")


class Node(Docker):
    """An engine for a simulated host, in its own network; `address` is its address on the cable."""

    # Its own bridge and rules affect only that namespace.
    network_options = ()

    def __init__(self, name: str, host: Host, address: str = "", **settings: object) -> None:
        super().__init__(our_program("amd-container-runtime"), host.root, **settings)
        self.name = name
        self.host = host
        self.address = address
        # The engine uses the configuration of the simulated host.
        usual = Path(host.path("/etc/docker/daemon.json"))
        usual.parent.mkdir(parents=True, exist_ok=True)
        usual.symlink_to(self.daemon_json)
        # The namespaces live as long as this process.
        self._keeper = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"], start_new_session=True)
        wait_until(lambda: _namespace(self._keeper.pid) != _namespace(os.getpid()))
        self.under = ("nsenter", f"--target={self._keeper.pid}", "--net", "--uts")
        self._inside("hostname", name)
        self._inside("ip", "link", "set", "lo", "up")

    @property
    def daemon_json(self) -> Path:
        return self.directory / "daemon.json"

    def amd_ctk(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run an amd-ctk command on this node to its end, whatever its exit code."""
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": self.host.root, "DOCKER_HOST": f"unix://{self.socket}"}
        program = our_program("amd-ctk")
        ended = subprocess.run(
            [*self.under, program, *words], env=environment, capture_output=True, text=True, check=False
        )
        ended.stderr = without_note(ended.stderr)
        return ended

    def set_up(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `amd-ctk swarm setup` for this node."""
        return self.amd_ctk("swarm", "setup", "--set-as-default", *words)

    def restart(self) -> None:
        """Stop the engine cleanly and start it again."""
        self.halt()
        self.start()

    def kill(self) -> None:
        """Kill both daemons, shims and containers at once."""
        containers = self("ps", "--quiet").stdout.split()
        found = self("inspect", "--format={{.State.Pid}}", *containers).stdout.split() if containers else []
        inits = [int(pid) for pid in found]
        shims = {_parent(pid) for pid in inits}
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()
        for pid in (*shims, *inits):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Leave the swarm, which would restart tasks, and delete everything else."""
        if self._processes:
            self("swarm", "leave", "--force", check=False)
        super().stop()
        self._keeper.kill()
        self._keeper.wait()

    def connect(self, other: Node) -> None:
        """Join both nodes by a separate cable, which ends with either of them."""
        pairs = ((self, other), (other, self))
        ends = [(f"to-{there.name}", "netns", str(here._keeper.pid)) for here, there in pairs]
        _run("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
        for here, there in pairs:
            addresses = ("local", here.address, "peer", there.address)
            here._inside("ip", "address", "add", *addresses, "dev", f"to-{there.name}")
            here._inside("ip", "link", "set", f"to-{there.name}", "up")

    def join(self, manager: Node) -> None:
        """Join a manager's swarm as a worker."""
        token = manager("swarm", "join-token", "--quiet", "worker").stdout.strip()
        self("swarm", "join", f"--token={token}", f"--advertise-addr={self.address}", f"{manager.address}:2377")

    def create_service(self, name: str, *options: str, command: Sequence[str] = ("sleep", "1000")) -> None:
        """Create a service on this node, which must be a manager."""
        self("service", "create", f"--name={name}", *TASK_OPTIONS, *options, IMAGE, *command)

    def tasks(self, service: str) -> list[dict[str, str]]:
        """Return the tasks in `docker service ps`, newest first within a replica."""
        lines = self("service", "ps", "--no-trunc", "--format={{json .}}", service).stdout.splitlines()
        tasks = [json.loads(line) for line in lines]
        return [{**task, "Error": task["Error"].strip('"')} for task in tasks]

    def running(self, service: str) -> int:
        """Return the number of running tasks of a service."""
        return sum(task["CurrentState"].startswith("Running") for task in self.tasks(service))

    def containers(self, service: str) -> list[str]:
        """Return the running containers of a service on this node."""
        return self(
            "ps", "--quiet", "--no-trunc", f"--filter=label=com.docker.swarm.service.name={service}"
        ).stdout.split()

    def environment(self, container: str) -> dict[str, str]:
        """Return the GPU variables of a container's first process."""
        words = self("exec", container, "cat", "/proc/1/environ").stdout.split("\0")
        return dict(word.split("=", 1) for word in words if word.startswith(("DOCKER_RESOURCE_", "AMD_")))

    def gpu_nodes(self, container: str) -> list[str]:
        """Return the render nodes that a container has and may open."""
        lines = [line.split() for line in self("exec", container, "list-gpus").stdout.splitlines()]
        return [words[0] for words in lines if "renderD" in words[0] and words[-1] == "opens"]

    def lives(self) -> list[tuple[str, str]]:
        """Return the starts and ends of containers, oldest first: "start" or "die", and the container.

        The engine remembers its last 256 events; each container causes about ten.
        """
        when = ("--since=0", f"--until={time.time()}")
        filters = ("--filter=event=start", "--filter=event=die")
        said = self("events", *when, *filters, "--format={{.Action}} {{.ID}}").stdout
        return [(action, container) for action, _, container in (line.partition(" ") for line in said.splitlines())]

    def wait_for_running(self, service: str, count: int) -> None:
        wait_until(lambda: self.running(service) == count, lambda: f"{self.tasks(service)}")

    def wait_for_error(self, service: str) -> str:
        """Return the message with which a task of a service was refused."""
        wait_until(lambda: any(task["Error"] for task in self.tasks(service)), lambda: f"{self.tasks(service)}")
        return next(task["Error"] for task in self.tasks(service) if task["Error"])

    def remove_service(self, service: str, *nodes: Node) -> None:
        """Remove a service and wait until its containers are gone, also on other nodes."""
        self("service", "rm", service)
        for node in (self, *nodes):
            wait_until(lambda node=node: not node.containers(service))  # type: ignore[misc]  # a default is no argument

    def _inside(self, *words: str) -> None:
        _run(*self.under, *words)


def wait_until(holds: Callable[[], bool], explain: Callable[[], str] = lambda: "") -> None:
    """Wait until `holds` is true; TimeoutError with an explanation if that takes too long."""
    until = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(explain())
        time.sleep(0.1)


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/uts")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
