"""The engines of a proof: how each loads the image and starts a container with one GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.configuration.runtime_program import usual_runtime
from amd_ctk.doctor.checks.docker import configure_and_restart
from amd_ctk.doctor.facts.all import Facts
from amd_device_spec.cdi import KIND
from amd_device_spec.request import MEMORY
from amd_device_spec.settings import read_settings
from amd_device_spec.start.memory_limit import OFF, MemoryLimit, enforce, is_crun
from amdgpu_discovery.command_line.programs import Answer, ask
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

IMAGE = "localhost/amd-ctk-proof:local"
PROOF_SECONDS = 60.0
NAMESPACE = "amd-ctk-proof"
# Placeholders in an engine's command: the number of a GPU, and the directory of the image.
GPU, ROOTFS = "{gpu}", "{rootfs}"
VARIABLE = f"AMD_VISIBLE_DEVICES={GPU}"
# A container that the AMD runtime creates asks for this limit, where it can be enforced.
LIMIT = MemoryLimit(mib=1024, source=f"{MEMORY}=1GiB")


# Runs a command in a container with the GPU of this number.
Run = Callable[[int, list[str]], Answer]


class ProofEngine(Value):
    """An installed engine: its name, its version, and the command that runs the image, with `GPU` for the GPU's number.

    `is_limited` means that the container asks for LIMIT. `problem` says why the engine cannot give GPUs to
    containers, and what to do; "" if it can.
    """

    name: str
    version: str
    argv: tuple[str, ...] = ()
    is_limited: bool = False
    problem: str = ""


class EngineProblem(ToolkitError):
    """An engine cannot load the image."""


def find_engines(facts: Facts, host: Host) -> list[ProofEngine]:
    """Return the engines that answer on this host."""
    engines = [_find_docker(facts), _find_podman(facts), _find_containerd()]
    can_limit = _can_limit(facts, host)
    return [_with_limit(engine) if can_limit and VARIABLE in engine.argv else engine for engine in engines if engine]


def _can_limit(facts: Facts, host: Host) -> bool:
    """Return whether the memory of each GPU of this host can be limited for a container that has it alone."""
    settings = read_settings(host)
    runtime = settings.low_level_runtime or usual_runtime()
    # Whether crun can depends on how each engine makes cgroups, which is not known here.
    limited = [enforce(LIMIT, [gpu], host, runtime=runtime) for gpu in facts.gpus.gpus]
    return settings.vram_limit != OFF and not is_crun(runtime) and not any(each.obstacle for each in limited)


def _with_limit(engine: ProofEngine) -> ProofEngine:
    """Let the container ask for a limit, beside the variable that asks for the GPU."""
    at = engine.argv.index(VARIABLE)
    option = engine.argv[at - 1]
    return engine.replace(argv=(*engine.argv[: at + 1], option, LIMIT.source, *engine.argv[at + 1 :]), is_limited=True)


def _find_docker(facts: Facts) -> ProofEngine | None:
    docker = facts.docker
    if not docker.version:
        return None
    engine = ProofEngine(name="docker", version=docker.version_text)
    run = ("docker", "run", "--rm", "--network=none")
    runtime = next((name for name in docker.runtimes if name in (*docker.file_runtimes, "amd")), "")
    if runtime:
        return engine.replace(argv=(*run, f"--runtime={runtime}", "-e", VARIABLE, IMAGE))
    if docker.has_cdi and facts.cdi.paths:
        return engine.replace(argv=(*run, f"--device={KIND}={GPU}", IMAGE))
    return engine.replace(problem=f"it has no runtime amd: {configure_and_restart(docker)}")


def _find_podman(facts: Facts) -> ProofEngine | None:
    answer = ask(["podman", "version", "--format", "{{.Client.Version}}"])
    if not answer.succeeded:
        return None
    engine = ProofEngine(name="podman", version=answer.output.strip())
    # Podman does not let containers make nodes, and gives rootless ones none of the caller's groups.
    rights = "--cap-add=MKNOD" if os.geteuid() == 0 else "--group-add=keep-groups"
    run = ("run", "--rm", "--network=none", rights)
    if facts.cdi.paths:
        return engine.replace(argv=("podman", *run, f"--device={KIND}={GPU}", IMAGE))
    if facts.podman.files.runtimes:
        runtime = f"--runtime={facts.podman.files.runtimes[-1]}"
        return engine.replace(argv=("podman", runtime, *run, "-e", VARIABLE, IMAGE))
    return engine.replace(problem="no CDI spec offers its devices: sudo amd-ctk cdi generate")


def _find_containerd() -> ProofEngine | None:
    runtime = shutil.which(RUNTIME_PROGRAM)
    if os.geteuid() or not runtime:
        return None
    answer = ask(["ctr", "version"])
    version = answer.output.rpartition("Version:")[2].split()
    if not (answer.succeeded and version):
        return None
    run = ("ctr", "--namespace", NAMESPACE, "run", "--rm", f"--runc-binary={runtime}")
    argv = (*run, "--env", VARIABLE, "--rootfs", ROOTFS, f"proof-{GPU}")
    return ProofEngine(name="containerd", version=version[0], argv=argv)


@contextmanager
def image_in(engine: ProofEngine, packed: bytes) -> Iterator[Run]:
    """Load the image into an engine, and remove it at the end; yield the function that runs a command with a GPU.

    EngineProblem if the engine cannot load the image.
    """
    if engine.name == "containerd":
        with tempfile.TemporaryDirectory(prefix="amd-ctk-proof-") as directory:
            _feed(["tar", "--extract", "--directory", directory], packed)
            yield partial(_run, engine, directory)
        return
    _feed([engine.name, "import", "-", IMAGE], packed)
    try:
        yield partial(_run, engine, "")
    finally:
        ask([engine.name, "rmi", "--force", IMAGE], seconds=PROOF_SECONDS)


def _run(engine: ProofEngine, directory: str, gpu: int, command: list[str]) -> Answer:
    argv = (word.replace(GPU, str(gpu)).replace(ROOTFS, directory) for word in engine.argv)
    return ask([*argv, *command], seconds=PROOF_SECONDS)


def _feed(argv: list[str], packed: bytes) -> None:
    try:
        done = subprocess.run(argv, input=packed, capture_output=True, check=False, timeout=PROOF_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineProblem(f"{argv[0]} cannot load the image: {type(error).__name__}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EngineProblem(f"{argv[0]} cannot load the image: {said[-1]}")
