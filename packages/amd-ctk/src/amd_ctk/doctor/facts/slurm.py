"""What Slurm on a node is told of its GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from amd_ctk.slurm.status import SlurmStatus, read_status
from amd_device_spec.slurm.conf import GRES_CONF, SLURM_CONF, find_conf
from amd_device_spec.slurm.job_gpus import read_device_files
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value


class SlurmFacts(Value):
    """Slurm's configuration on this node; `problem` is why it cannot be read."""

    is_configured: bool = False
    problem: str = ""
    # None where there is no Slurm, or no GPU.
    status: SlurmStatus | None = None
    # The device files of GPUs by their number in Slurm.
    files: tuple[str, ...] = ()


def read_slurm(host: Host, gpus: Sequence[Gpu], node: str = "") -> SlurmFacts:
    """Return what the files of Slurm say of a node, else of this one; that they cannot be read is a fact too."""
    if not (gpus and any(find_conf(host, name) for name in (GRES_CONF, SLURM_CONF))):
        return SlurmFacts()
    # As slurmd calls this node, unless it was told another name.
    node = node or os.uname().nodename.partition(".")[0]
    try:
        status, files = read_status(host, gpus, node), tuple(read_device_files(host, node))
    except ToolkitError as error:
        return SlurmFacts(is_configured=True, problem=error.message)
    return SlurmFacts(is_configured=True, status=status, files=files)
