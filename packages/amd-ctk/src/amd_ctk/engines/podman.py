"""Podman: a drop-in of containers.conf."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, EngineLayout
from amdgpu_discovery.command_line.toml_document import TomlDocument

# Podman reads CDI specs without configuration, and has no daemon to restart.
LAYOUT = EngineLayout(
    runtimes=("engine", "runtimes"),
    make_entry=lambda program: [program],
    program=(),
    default_runtime=("engine", "runtime"),
    cdi_directories=("engine", "cdi_spec_dirs"),
)
PODMAN = Engine(
    name="podman",
    config_path="/etc/containers/containers.conf.d/99-amd.conf",
    read=TomlDocument,
    find_layout=lambda _: LAYOUT,
    service="",
    built_in=("runc", "crun"),
    new_text="# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=podman --remove'.\n",
)
