"""The engines of a proof: how each makes an image, and a container for one GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amd_ctk.cdi.listing import KIND
from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.programs import Answer, ask
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

IMAGE = "localhost/amd-ctk-proof:local"
SECONDS = 60.0
NAMESPACE = "amd-ctk-proof"


class ProofEngine(Value):
    """An engine that is there: its name and version, and the words that run the image for a GPU by number.

    `problem` is why it cannot give a container GPUs, and what to do, "" where it can.
    """

    name: str
    version: str
    words: Callable[[int], list[str]]
    problem: str = ""


class EngineProblem(ToolkitError):
    """An engine does not take the image."""


def find_engines(facts: Facts) -> list[ProofEngine]:
    """Return the engines that answer on this host."""
    engines = [_find_docker(facts), _find_podman(facts), _find_containerd()]
    return [engine for engine in engines if engine]


def _find_docker(facts: Facts) -> ProofEngine | None:
    docker = facts.docker
    if not docker.version:
        return None
    run = ["docker", "run", "--rm", "--network=none"]
    runtime = next((name for name in docker.runtimes if name in (*docker.file_runtimes, "amd")), "")
    if runtime:
        return _make("docker", docker.version_words, lambda gpu: [*run, f"--runtime={runtime}", *_variable(gpu), IMAGE])
    if docker.has_cdi and facts.cdi.paths:
        return _make("docker", docker.version_words, lambda gpu: [*run, f"--device={KIND}={gpu}", IMAGE])
    problem = f"it has no runtime amd: {docker.configure_and_restart}"
    return _make("docker", docker.version_words, lambda _: [], problem)


def _find_podman(facts: Facts) -> ProofEngine | None:
    answer = ask(["podman", "version", "--format", "{{.Client.Version}}"])
    if not answer.succeeded:
        return None
    version = answer.output.strip()
    # Podman gives containers no right to make nodes, and rootless ones no group of the caller.
    rights = ["--cap-add=MKNOD"] if os.geteuid() == 0 else ["--group-add=keep-groups"]
    run = ["run", "--rm", "--network=none", *rights]
    if facts.cdi.paths:
        return _make("podman", version, lambda gpu: ["podman", *run, f"--device={KIND}={gpu}", IMAGE])
    if facts.podman.files.runtimes:
        runtime = f"--runtime={facts.podman.files.runtimes[-1]}"
        return _make("podman", version, lambda gpu: ["podman", runtime, *run, *_variable(gpu), IMAGE])
    return _make("podman", version, lambda _: [], "no CDI spec offers its devices: sudo amd-ctk cdi generate")


def _find_containerd() -> ProofEngine | None:
    answer = ask(["ctr", "version"]) if os.geteuid() == 0 else Answer(problem="root's")
    version = answer.output.rpartition("Version:")[2].split() if answer.succeeded else []
    runtime = shutil.which(RUNTIME_PROGRAM)
    if not version or not runtime:
        return None
    run = ["ctr", "--namespace", NAMESPACE, "run", "--rm", f"--runc-binary={runtime}"]
    return _make(
        "containerd", version[0], lambda gpu: [*run, "--env", _variable(gpu)[1], "--rootfs", "ROOTFS", f"proof-{gpu}"]
    )


def _make(name: str, version: str, words: Callable[[int], list[str]], problem: str = "") -> ProofEngine:
    return ProofEngine(name=name, version=version, words=words, problem=problem)


def _variable(gpu: int) -> list[str]:
    return ["-e", f"AMD_VISIBLE_DEVICES={gpu}"]


@contextmanager
def image_in(engine: ProofEngine, packed: bytes) -> Iterator[Callable[[int, list[str]], Answer]]:
    """Give an engine the image for as long as this lasts; yield what runs a command in a container with a GPU.

    EngineProblem where the engine does not take it.
    """
    if engine.name == "containerd":
        with tempfile.TemporaryDirectory(prefix="amd-ctk-proof-") as directory:
            _feed(["tar", "--extract", "--directory", directory], packed)
            yield lambda gpu, command: ask(
                [*(directory if word == "ROOTFS" else word for word in engine.words(gpu)), *command], seconds=SECONDS
            )
        return
    _feed([engine.name, "import", "-", IMAGE], packed)
    try:
        yield lambda gpu, command: ask([*engine.words(gpu), *command], seconds=SECONDS)
    finally:
        ask([engine.name, "rmi", "--force", IMAGE], seconds=SECONDS)


def _feed(words: list[str], packed: bytes) -> None:
    try:
        done = subprocess.run(words, input=packed, capture_output=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineProblem(f"{words[0]} cannot load the image: {type(error).__name__}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EngineProblem(f"{words[0]} cannot load the image: {said[-1]}")
