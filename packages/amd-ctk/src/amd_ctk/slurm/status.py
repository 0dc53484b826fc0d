"""Compare Slurm's configuration of a node with the GPUs of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amd_ctk.configuration.edit import read_text
from amd_ctk.configuration.engine import RUNTIME_PROGRAM, is_amd_runtime
from amd_ctk.documents.oci_conf import RUNTIMES, OciConf, is_outdated
from amd_ctk.slurm.gres import sort_by_type, type_of
from amd_device_spec.slurm.conf import GRES_CONF, find_conf, read_lines
from amd_device_spec.slurm.job_gpus import read_device_files
from amd_device_spec.slurm_job import SlurmError
from amd_gpu_tracker.watch.show.listing import format_fixed
from amdgpu_discovery.command_line.edited import ConfigFile
from amdgpu_discovery.command_line.listing import to_json
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

CGROUP_CONF = "cgroup.conf"
OCI_CONF = "oci.conf"
HOW_TO_CONFIGURE = "'sudo amd-ctk runtime configure --runtime=slurm' changes that"
OUTDATED = (
    f"{OCI_CONF} calls {RUNTIME_PROGRAM} differently from this version, so scancel may leave containers"
    f" behind ({HOW_TO_CONFIGURE})"
)
# s_p_handle_boolean() of Slurm.
TRUE = frozenset({"yes", "up", "true", "1"})
HEADER = ("GPU Id", "Slurm Id", "Type", "DRM Device")
WIDTHS = (10, 10, 12, 24)


class NodeGpu(Value):
    """A GPU and its number in Slurm, None if Slurm does not know the GPU."""

    number: int
    slurm_number: int | None
    type: str
    file: str


class SlurmStatus(Value):
    """Slurm's configuration for GPUs, and a sentence for each problem."""

    gpus: tuple[NodeGpu, ...]
    constrains_devices: bool
    # The program that Slurm calls for containers, "" if it calls none.
    runtime: str
    problems: tuple[str, ...]
    # Whether Slurm calls amd-container-runtime with the command lines of an earlier version.
    is_outdated: bool = False
    # Files that gres.conf lists as GPUs, but that are no GPUs of this host.
    foreign_files: tuple[str, ...] = ()


def read_status(host: Host, gpus: Sequence[Gpu], node: str) -> SlurmStatus:
    """Return Slurm's configuration for the GPUs of a node."""
    problems: list[str] = []
    try:
        files = read_device_files(host, node)
    except SlurmError as error:
        files, problems = [], [str(error)]
    constrains = _constrains_devices(host)
    entry = _read_runtime(host)
    runtime = str(entry.get("program", ""))
    outdated = is_amd_runtime(runtime) and is_outdated(entry)
    problems += [] if problems else _problems_of_gres(host, files, gpus, node)
    problems += _problems_around(constrains_devices=constrains, runtime=runtime)
    problems += [OUTDATED] if outdated else []
    return SlurmStatus(
        gpus=tuple(_join(gpu, files) for gpu in gpus),
        constrains_devices=constrains,
        runtime=runtime,
        is_outdated=outdated,
        problems=tuple(problems),
        foreign_files=tuple(_find_foreign(files, gpus)),
    )


def format_foreign(file: str) -> str:
    """Return the sentence about a file in gres.conf that is no GPU of this host."""
    return f"{GRES_CONF} names {file}, which is not a GPU of this host"


def _join(gpu: Gpu, files: Sequence[str]) -> NodeGpu:
    position = next((files.index(path) for path in (gpu.render_path, gpu.card_path) if path in files), None)
    return NodeGpu(number=gpu.number, slurm_number=position, type=type_of(gpu), file=gpu.render_path)


def _problems_of_gres(host: Host, files: Sequence[str], gpus: Sequence[Gpu], node: str) -> Iterator[str]:
    if not files:
        why = f"names no GPU of {node}" if find_conf(host, GRES_CONF) else "does not exist"
        yield f"{GRES_CONF} {why}, so Slurm gives jobs no GPU ('amd-ctk slurm gres' prints one)"
        return
    joined = [_join(gpu, files) for gpu in sort_by_type(gpus)]
    for gpu in joined:
        if gpu.slurm_number is None:
            yield f"GPU {gpu.number} ({gpu.file}) is not in {GRES_CONF}, so Slurm gives it to no job"
    for file in _find_foreign(files, gpus):
        yield format_foreign(file)
    positions = [gpu.slurm_number for gpu in joined if gpu.slurm_number is not None]
    if positions != sorted(positions):
        yield "Slurm counts the GPUs in another order than the host, see the column Slurm Id"


def _find_foreign(files: Sequence[str], gpus: Sequence[Gpu]) -> Iterator[str]:
    known = {path for gpu in gpus for path in (gpu.render_path, gpu.card_path)}
    yield from (file for file in files if file not in known)


def _problems_around(*, constrains_devices: bool, runtime: str) -> Iterator[str]:
    if not constrains_devices:
        yield f"ConstrainDevices=yes is not in {CGROUP_CONF}, so jobs can open the GPUs of others"
    if not runtime:
        yield f"{OCI_CONF} names no runtime, so Slurm starts no containers ({HOW_TO_CONFIGURE})"
    elif not is_amd_runtime(runtime):
        yield f"{OCI_CONF} calls {runtime}, so containers of Slurm get no GPU ({HOW_TO_CONFIGURE})"


def _constrains_devices(host: Host) -> bool:
    path = find_conf(host, CGROUP_CONF)
    lines = read_lines(host, path) if path else []
    return any(line.get("constraindevices", "").lower() in TRUE for line in lines)


def _read_runtime(host: Host) -> dict[str, Any]:
    """Return the entry of the runtime that Slurm calls, {} for none."""
    path = find_conf(host, OCI_CONF)
    text = read_text(ConfigFile(path=host.path(path), shown=path)) if path else None
    runtimes = OciConf(text or "").get((RUNTIMES,))
    return runtimes["amd"] if isinstance(runtimes, dict) and runtimes else {}


def format_status(status: SlurmStatus) -> str:
    """Format the table of GPUs, and a line for each setting that they depend on."""
    rows = [
        (str(gpu.number), "-" if gpu.slurm_number is None else str(gpu.slurm_number), gpu.type, gpu.file)
        for gpu in status.gpus
    ]
    return "\n".join(
        [
            *format_fixed([HEADER, *rows], WIDTHS),
            f"ConstrainDevices: {'yes' if status.constrains_devices else 'no'}",
            f"Runtime of containers: {status.runtime or '-'}",
        ]
    )


def format_json(status: SlurmStatus) -> str:
    """Format everything as JSON; null for a GPU without a number in Slurm, and for no runtime."""
    return to_json(
        {
            "gpus": [gpu.as_dict() for gpu in status.gpus],
            "constrains_devices": status.constrains_devices,
            "runtime": status.runtime or None,
            "problems": list(status.problems),
        }
    )
