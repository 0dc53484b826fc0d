"""Slurm: oci.conf."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, EngineLayout
from amd_ctk.documents.oci_conf import RUNTIMES, OciConf, is_outdated
from amdgpu_discovery.command_line.programs import ask
from amdgpu_discovery.host import Host

# Each user's containers have their state in the user's own directory.
STATE_OF_USER = "--root=/run/user/%U/"
# slurmstepd 22.05 fails at %U: "unexpected replacement character: U".
WITHOUT_USER_ID = ("20.", "21.", "22.")


def on_host(_: Host) -> Engine:
    """Return Slurm with the options that its installed version accepts."""
    version = ask(("slurmd", "-V")).output.removeprefix("slurm-wlm").removeprefix("slurm").strip()
    return SLURM.replace(find_layout=lambda _: _layout("")) if version.startswith(WITHOUT_USER_ID) else SLURM


def _layout(options: str) -> EngineLayout:
    return EngineLayout(
        runtimes=(RUNTIMES,),
        make_entry=lambda program: {"program": program, "options": options},
        program=("program",),
        default_runtime=("default",),
        is_outdated=is_outdated,
    )


SLURM = Engine(
    name="slurm",
    config_path="/etc/slurm/oci.conf",
    read=OciConf,
    find_layout=lambda _: _layout(STATE_OF_USER),
    service="slurmd",
    built_in=(),
    foreign_hint="Slurm has one runtime; delete the lines RunTime* first",
    new_text="# AMD GPUs in containers; 'amd-ctk runtime configure --runtime=slurm --remove' removes this.\n",
    on_host=on_host,
)
