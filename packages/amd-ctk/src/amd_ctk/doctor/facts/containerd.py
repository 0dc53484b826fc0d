"""What the files of containerd say of the AMD runtime."""

from __future__ import annotations

from functools import partial

from amd_ctk.doctor.facts.engine_files import EngineFileFacts, read_engine_files
from amd_ctk.documents.toml_document import TomlDocument
from amd_ctk.engines.containerd import CONTAINERD, DROP_IN, MAIN_FILE, find_drop_in_layout
from amdgpu_discovery.host import Host


def read_containerd(host: Host) -> EngineFileFacts:
    """Return what config.toml says, else the drop-in that this toolkit writes."""
    main = read_engine_files(host, CONTAINERD, [MAIN_FILE])
    if main.problem or main.runtimes:
        return main
    drop_in = CONTAINERD.replace(find_layout=partial(find_drop_in_layout, TomlDocument("")))
    return read_engine_files(host, drop_in, [DROP_IN])
