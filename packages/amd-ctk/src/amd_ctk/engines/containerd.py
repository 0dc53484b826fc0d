"""containerd: config.toml of version 2 or 3, or a drop-in where that is safe.

Before version 2.0 containerd replaces the whole section of a plugin by that of an imported file, so a drop-in that
adds one runtime would throw away all that the main file says about the CRI plugin. Only containerd 2 reads
configurations of version 3 and merges key by key; there, and only there, a drop-in is used.
"""

from __future__ import annotations

from typing import Any  # noqa: TID253

from amd_ctk.engines.document import ABSENT, Document, DocumentError, KeyPath
from amd_ctk.engines.engine import Engine, Layout
from amd_ctk.engines.toml_document import TomlDocument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAIN_FILE = "/etc/containerd/config.toml"
DROP_IN_GLOB = "/etc/containerd/conf.d/*.toml"
DROP_IN = "/etc/containerd/conf.d/99-amd.toml"
CRI_BY_VERSION = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
RUNC = "io.containerd.runc.v2"


def find_config(read: Callable[[str], str]) -> str:
    """Return the drop-in where the main file imports it and can merge it, else the main file."""
    main = TomlDocument(read(MAIN_FILE))
    imports = main.get(("imports",))
    if main.get(("version",)) == 3 and isinstance(imports, list) and DROP_IN_GLOB in imports:
        return DROP_IN
    return MAIN_FILE


def find_layout(document: Document) -> Layout:
    """Return where a configuration of this version keeps its runtimes; DocumentError for one that has none."""
    version = document.get(("version",))
    if document.is_empty:
        # The oldest version that every containerd in use reads.
        return _layout(document, CRI_BY_VERSION[2], preamble=((("version",), 2),))
    if version not in CRI_BY_VERSION:
        written = "no version, which means 1" if version is ABSENT else f"version {version}"
        raise DocumentError(
            f"it has {written}, and runtimes need version 2 or 3",
            hint="'containerd config migrate' prints a newer form of it",
        )
    return _layout(document, CRI_BY_VERSION[version])


def _layout(document: Document, plugin: str, preamble: tuple[tuple[KeyPath, Any], ...] = ()) -> Layout:
    cri = ("plugins", plugin)
    runtimes = (*cri, "containerd", "runtimes")
    runc = document.get((*runtimes, "runc"))
    return Layout(
        runtimes=runtimes,
        entry=lambda program: _entry(program, runc if isinstance(runc, dict) else {}),
        program=("options", "BinaryName"),
        default_runtime=(*cri, "containerd", "default_runtime_name"),
        cdi=(*cri, "enable_cdi"),
        preamble=preamble,
    )


def _entry(program: str, runc: dict[str, Any]) -> dict[str, Any]:
    """Return a runtime with the options of runc, whose cgroup driver in particular must be that of all runtimes."""
    return {
        "runtime_type": runc.get("runtime_type", RUNC),
        "options": {**runc.get("options", {}), "BinaryName": program},
    }


CONTAINERD = Engine(
    name="containerd",
    find_config=find_config,
    read=TomlDocument,
    find_layout=find_layout,
    service="containerd",
    built_in=("runc",),
    check_command=lambda file: ("containerd", "--config", file, "config", "dump"),
    check_prints_configuration=True,
    new_text="",
)
