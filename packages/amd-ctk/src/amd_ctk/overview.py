"""What `amd-ctk` alone prints on a terminal: the state of this host in a few lines, and what to type next."""

from __future__ import annotations

from shutil import which

from amd_ctk.engines.known import ENGINES
from amd_gpu_tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.models import model_of
from amdgpu_discovery.product_names import find_product_names, short_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

DRIVER_VERSION = "/sys/module/amdgpu/version"
CDI_SPECS = ("/etc/cdi/amd.json", "/etc/cdi/amd.yaml")
OUR_RUNTIME = b"amd-container-runtime"
EXAMPLE = "docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all docker.io/rocm/rocm-terminal rocm-smi"


def print_overview(host: Host) -> None:
    """Print driver, GPUs, engines and tracker of a host, and the next command."""
    gpus, obstacle = _find_gpus(host)
    engines = find_engines(host)
    print(f"Driver   {format_driver(host, obstacle)}")
    print(f"GPUs     {format_gpus(gpus, find_product_names(host, gpus))}")
    print(f"Engines  {format_engines(engines)}")
    print(f"Tracker  {_format_tracker(host)}")
    print(f"\nNext:    {next_command(engines, is_broken=bool(obstacle) or not gpus, has_cdi=_has_cdi(host))}")
    print("Help:    amd-ctk --help")


def find_engines(host: Host) -> dict[str, bool]:
    """Return the engines of a host, and of each whether it knows the runtime `amd`."""
    knows = {name: OUR_RUNTIME in _read(host, engine.config_path) for name, engine in ENGINES.items()}
    return {name: does for name, does in knows.items() if does or (host.is_this_machine and which(name))}


def format_driver(host: Host, obstacle: str) -> str:
    """Return the version of the driver, or why there is none."""
    return obstacle or f"amdgpu {host.read_attribute(DRIVER_VERSION)}".rstrip()


def format_gpus(gpus: Sequence[Gpu], products: dict[int, str]) -> str:
    """Return how many GPUs there are of each model."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = short_name(model_of(gpu), products[gpu.number])
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"


def format_engines(engines: dict[str, bool]) -> str:
    """Return the engines, and which of them know the runtime."""
    said = (f"{name}{' (knows the runtime amd)' if knows else ''}" for name, knows in engines.items())
    return ", ".join(said) or "none"


def next_command(engines: dict[str, bool], *, is_broken: bool, has_cdi: bool) -> str:
    """Return the command that a user would type next on such a host."""
    if is_broken:
        return "sudo amd-ctk doctor"
    if engines.get("docker"):
        return EXAMPLE
    if "docker" in engines:
        return "sudo amd-ctk runtime configure"
    return "amd-ctk gpu list" if has_cdi else "sudo amd-ctk cdi generate"


def _find_gpus(host: Host) -> tuple[list[Gpu], str]:
    try:
        return find_gpus(host), ""
    except ToolkitError as error:
        return [], error.message


def _format_tracker(host: Host) -> str:
    try:
        status = Tracker(host).status()
    except ToolkitError as error:
        return error.message
    if not status.enabled:
        return "disabled"
    used = sum(bool(gpu.containers) for gpu in status.gpus)
    return f"enabled, {used} of {len(status.gpus)} GPUs in use"


def _has_cdi(host: Host) -> bool:
    return any(host.stat(path) for path in CDI_SPECS)


def _read(host: Host, path: str) -> bytes:
    try:
        return host.read(path)
    except OSError:
        return b""
