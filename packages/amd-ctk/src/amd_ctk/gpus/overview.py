"""Print what `amd-ctk` without arguments shows on a terminal: the state of this host, and the next command to type."""

from __future__ import annotations

import os
from collections import Counter
from shutil import which

from amd_ctk.configuration.apply import find_target
from amd_ctk.configuration.edit import read_text
from amd_ctk.configuration.engine import RUNTIME_PROGRAM, Engine
from amd_ctk.engines.known import ENGINES
from amd_gpu_tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.tables.driver_versions import DRIVER_VERSION
from amdgpu_discovery.tables.models import find_product_names, model_of, short_name

CDI_SPECS = ("/etc/cdi/amd.json", "/etc/cdi/amd.yaml")
EXAMPLE = "sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all docker.io/rocm/rocm-terminal rocm-smi"


def print_overview(host: Host) -> None:
    """Print the driver, GPUs, engines and tracker of a host, and the next command."""
    gpus, obstacle = _find_gpus(host)
    engines = _find_engines(host)
    has_cdi = any(host.stat(path) for path in CDI_SPECS)
    products = find_product_names(host, gpus)
    models = Counter(short_name(model_of(gpu), products[gpu.number]) for gpu in gpus)
    known = [f"{name}{' (knows the runtime amd)' if knows else ''}" for name, knows in engines.items()]
    print("Driver  ", obstacle or f"amdgpu {host.read_attribute(DRIVER_VERSION)}".rstrip())
    print(f"GPUs     {', '.join(f'{count} x {name}' for name, count in models.items()) or 'none'}")
    print(f"Engines  {', '.join(known) or 'none'}")
    print(f"Tracker  {_format_tracker(host)}")
    print(f"\nNext:    {next_command(engines, is_broken=bool(obstacle) or not gpus, has_cdi=has_cdi)}")
    print("Help:    amd-ctk --help")


def next_command(engines: dict[str, bool], *, is_broken: bool, has_cdi: bool) -> str:
    """Return the command that a user of this host probably needs next."""
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


def _find_engines(host: Host) -> dict[str, bool]:
    """Return the engines of a host, and whether each of them is configured with the runtime `amd`."""
    knows = {name: RUNTIME_PROGRAM in _read_configuration(host, engine) for name, engine in ENGINES.items()}
    return {name: does for name, does in knows.items() if is_engine_installed(ENGINES[name], host, has_entry=does)}


def is_engine_installed(engine: Engine, host: Host, *, has_entry: bool) -> bool:
    """Return whether an engine is installed. On another root only its configuration tells, which may stand alone."""
    if not host.is_this_machine:
        return has_entry
    # Users have no sbin in their PATH, where slurmd lies.
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin"
    return any(which(program, path=path) for program in (engine.name, engine.service) if program)


def _format_tracker(host: Host) -> str:
    try:
        status = Tracker(host).status()
    except ToolkitError as error:
        return error.message
    if not status.enabled:
        return "disabled"
    used = sum(bool(gpu.containers) for gpu in status.gpus)
    return f"enabled, {used} of {len(status.gpus)} GPUs in use"


def _read_configuration(host: Host, engine: Engine) -> str:
    """Return the text of the file that `runtime configure` edits for an engine; "" if it cannot be read."""
    try:
        return read_text(find_target(host, engine, "").file) or ""
    except ToolkitError:
        return ""
