"""Which runtime an engine would call for a container, and what it makes of `--gpus`."""

from __future__ import annotations

import os

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amd_ctk.configuration.engine import Engine
    from amd_ctk.explain.container import Container
    from amdgpu_discovery.host import Host

# Where Podman reads its configuration, the strongest last.
CONTAINERS_CONF = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
CONTAINERS_CONF_D = "/etc/containers/containers.conf.d"
USUAL_RUNTIME = {"docker": "runc", "nerdctl": "runc", "podman": "crun or runc"}
CONFIGURE = {
    "docker": "run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker'",
    "podman": "run 'sudo amd-ctk runtime configure --runtime=podman'",
}


class RuntimeView(Value):
    """The runtime that an engine calls for a container: is it amd-container-runtime, and if not, why."""

    is_amd_runtime: bool
    problem: str = ""
    # Why the engine does not start the container at all.
    refusal: ToolkitError | None = None


def find_runtime(container: Container, host: Host) -> RuntimeView:
    """Return which runtime a container would run under, as the engine's files on this host have it."""
    if not container.engine:
        return RuntimeView(is_amd_runtime=True)
    amd_names, default = _read_runtimes(container.engine, host)
    chosen = container.runtime or default
    if chosen in amd_names or os.path.basename(chosen) == RUNTIME_PROGRAM:
        return RuntimeView(is_amd_runtime=True)
    if chosen == "amd":
        hint = CONFIGURE.get(container.engine, CONFIGURE["docker"])
        return RuntimeView(
            is_amd_runtime=False, refusal=ToolkitError(f"{container.engine} has no runtime amd", hint=hint)
        )
    name = chosen or USUAL_RUNTIME.get(container.engine, "runc")
    return RuntimeView(
        is_amd_runtime=False, problem=f"the container runs under {name}: add --runtime={next(iter(amd_names), 'amd')}"
    )


def _read_runtimes(engine: str, host: Host) -> tuple[list[str], str]:
    """Return the names of the AMD runtime in an engine's files, and the default runtime."""
    # Podman's configuration needs a library that takes as long to load as all else here.
    from amd_ctk.engines.docker import DOCKER
    from amd_ctk.engines.podman import PODMAN

    known, paths = (PODMAN, podman_files(host)) if engine == "podman" else (DOCKER, [DOCKER.config_path])
    amd_names: list[str] = []
    default = ""
    for path in paths:
        names, chosen = _read_file(known, path, host)
        amd_names += [name for name in names if name not in amd_names]
        default = chosen or default
    return amd_names, default


def podman_files(host: Host) -> list[str]:
    """Return where Podman as root reads its configuration, the strongest last."""
    names = sorted(name for name in host.names(CONTAINERS_CONF_D) if name.endswith(".conf"))
    return [*CONTAINERS_CONF, *(f"{CONTAINERS_CONF_D}/{name}" for name in names)]


def _read_file(engine: Engine, path: str, host: Host) -> tuple[list[str], str]:
    try:
        document = engine.read(host.read(path).decode())
        layout = engine.find_layout(document)
        runtimes, default = document.get(layout.runtimes), document.get(layout.default_runtime)
    except (OSError, ValueError, ToolkitError):
        return [], ""
    entries = runtimes.items() if isinstance(runtimes, dict) else ()
    amd_names = [name for name, entry in entries if os.path.basename(layout.program_of(entry)) == RUNTIME_PROGRAM]
    return amd_names, default if isinstance(default, str) else ""


def translate_gpus(container: Container) -> tuple[Container, list[str]]:
    """Return the container as Docker 28.3 and later pass `--gpus` on, and what to say of it."""
    if not container.gpus:
        return container, []
    if container.engine == "podman":
        return container, [f"--gpus {container.gpus} is not for AMD GPUs in Podman: use --device amd.com/gpu=0"]
    devices = _devices_of(container.gpus)
    notes = [
        f"--gpus {container.gpus} is AMD_VISIBLE_DEVICES={devices} since Docker 28.3; earlier versions refuse it",
        "Docker 29.3 and later pass CDI devices in its place where there is a CDI spec",
    ]
    environment = (*container.environment, f"AMD_VISIBLE_DEVICES={devices}")
    return container.replace(environment=environment), notes


def _devices_of(value: str) -> str:
    """Return what Docker writes into AMD_VISIBLE_DEVICES."""
    if value.isascii() and value.isdecimal():
        return ",".join(map(str, range(min(int(value[:4]), 64)))) or "void"
    return next(_named_devices(value), "all" if "all" in value.split(",") else "0")


def _named_devices(value: str) -> Iterator[str]:
    unquoted = value.replace('"', "")
    if "device=" in unquoted:
        behind = unquoted.partition("device=")[2]
        yield ",".join(word for word in behind.split(",") if "=" not in word or word.startswith("amd.com/"))
