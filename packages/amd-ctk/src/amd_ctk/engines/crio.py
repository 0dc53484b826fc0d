"""CRI-O: a drop-in of crio.conf."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, EngineLayout
from amdgpu_discovery.command_line.toml_document import TomlDocument

# CRI-O reads CDI specs without configuration.
LAYOUT = EngineLayout(
    runtimes=("crio", "runtime", "runtimes"),
    make_entry=lambda program: {"runtime_path": program, "runtime_type": "oci"},
    program=("runtime_path",),
    default_runtime=("crio", "runtime", "default_runtime"),
)
CRIO = Engine(
    name="crio",
    config_path="/etc/crio/crio.conf.d/99-amd.conf",
    read=TomlDocument,
    find_layout=lambda _: LAYOUT,
    service="crio",
    built_in=("runc", "crun"),
    # Leaves out CRI-O's own drop-ins, which are not to be checked.
    check_command=lambda file: ("crio", "--config", file, "--config-dir", "", "config"),
    new_text="# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=crio --remove'.\n",
)
