"""containerd: config.toml of version 2, 3 or 4, or a drop-in where that is safe.

Before version 2.0 containerd replaces the whole section of a plugin by that of an imported file, so a drop-in that
adds one runtime would drop everything the main file says about the CRI plugin. Only containerd 2 reads
configurations of version 3, and 2.3 of version 4, and merges key by key; there, and only there, a drop-in is used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amd_ctk.configuration.edit import ConfigFile, read_text
from amd_ctk.configuration.engine import Engine, EngineLayout
from amd_ctk.documents.document import ABSENT, Document, DocumentError, KeyPath
from amd_ctk.documents.toml_document import TomlDocument
from amdgpu_discovery.host import Host

MAIN_FILE = "/etc/containerd/config.toml"
DROP_IN_GLOB = "/etc/containerd/conf.d/*.toml"
DROP_IN = "/etc/containerd/conf.d/99-amd.toml"
CRI_BY_VERSION = {
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
MERGING = (3, 4)
RUNC = "io.containerd.runc.v2"


def on_host(host: Host) -> Engine:
    """Return containerd with its drop-in where the main file is one that imports and merges it, else with that file."""
    file = ConfigFile(path=host.path(MAIN_FILE), shown=MAIN_FILE)
    try:
        main = TomlDocument(read_text(file) or "")
        imports = main.get(("imports",))
    except DocumentError:
        # The edit of the main file reports what is wrong with it.
        return CONTAINERD
    if main.get(("version",)) not in MERGING or not isinstance(imports, list) or DROP_IN_GLOB not in imports:
        return CONTAINERD
    return CONTAINERD.replace(
        config_path=DROP_IN,
        find_layout=partial(find_drop_in_layout, main),
        # Alone it would say nothing about how the two merge.
        checked_text=lambda text: TomlDocument(text).set(("imports",), [file.path]).text,
        new_text="# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=containerd --remove'.\n",
    )


def find_layout(document: Document) -> EngineLayout:
    """Return where a configuration of this version keeps its runtimes; DocumentError for one that has none."""
    if document.is_empty:
        # The oldest version that every containerd in use reads.
        return _layout(2, runc=ABSENT, preamble=((("version",), 2),))
    version = document.get(("version",))
    # It may be a list, which no dictionary can look up.
    if version not in tuple(CRI_BY_VERSION):
        written = "no version, which means 1" if version is ABSENT else f"version {version}"
        raise DocumentError(
            f"it has {written}, and runtimes need version 2, 3 or 4",
            hint="'containerd config migrate' prints a newer form of it",
        )
    return _layout(version, runc=document.get((*_runtimes(version), "runc")))


def find_drop_in_layout(main: Document, _: Document) -> EngineLayout:
    """Return where a drop-in keeps its runtimes: it has the version of the main file, as the two cannot be mixed."""
    version = main.get(("version",))
    version = version if version in MERGING else MERGING[0]
    runc = main.get((*_runtimes(version), "runc"))
    return _layout(version, runc=runc, preamble=((("version",), version),))


def _runtimes(version: int) -> KeyPath:
    return ("plugins", CRI_BY_VERSION[version], "containerd", "runtimes")


def _layout(version: int, *, runc: Any, preamble: tuple[tuple[KeyPath, Any], ...] = ()) -> EngineLayout:
    cri = ("plugins", CRI_BY_VERSION[version])
    return EngineLayout(
        runtimes=_runtimes(version),
        entry=partial(_entry, runc if isinstance(runc, dict) else {}),
        program=("options", "BinaryName"),
        default_runtime=(*cri, "containerd", "default_runtime_name"),
        cdi=(*cri, "enable_cdi"),
        # containerd 1 takes a table of runtimes in place of its own, in which runc is.
        otherwise_lost=(("runc", {"runtime_type": RUNC}),) if version == 2 else (),
        preamble=preamble,
    )


def _entry(runc: dict[str, Any], program: str) -> dict[str, Any]:
    """Return a runtime with the options of runc, whose cgroup driver in particular must be that of all runtimes."""
    return {
        "runtime_type": runc.get("runtime_type", RUNC),
        "options": {**runc.get("options", {}), "BinaryName": program},
    }


CONTAINERD = Engine(
    name="containerd",
    config_path=MAIN_FILE,
    read=TomlDocument,
    find_layout=find_layout,
    service="containerd",
    built_in=("runc",),
    check_command=lambda file: ("containerd", "--config", file, "config", "dump"),
    check_prints_configuration=True,
    new_text="",
    on_host=on_host,
)
