"""Slurm: oci.conf."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, Layout
from amd_ctk.documents.oci_conf import RUNTIMES, OciConf

LAYOUT = Layout(
    runtimes=(RUNTIMES,),
    entry=lambda program: {"program": program},
    program=("program",),
    default_runtime=("default",),
)
SLURM = Engine(
    name="slurm",
    config_path="/etc/slurm/oci.conf",
    read=OciConf,
    find_layout=lambda _: LAYOUT,
    service="slurmd",
    built_in=(),
    foreign_hint="Slurm has one runtime; delete the lines RunTime* first",
    new_text="# AMD GPUs in containers; 'amd-ctk runtime configure --runtime=slurm --remove' takes this out again.\n",
)
