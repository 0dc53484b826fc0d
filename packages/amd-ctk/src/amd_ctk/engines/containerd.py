"""containerd: config.toml of version 2, 3 or 4, or a drop-in if that is safe.

containerd 1 replaces the whole section of a plugin by that of an imported file, so a drop-in with one runtime would
drop all settings of the CRI plugin in the main file. containerd 2 merges key by key, and only it reads configurations
of version 3 (since 2.3 also of 4). So only a main file of these versions gets a drop-in.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amd_ctk.configuration.edit import read_text
from amd_ctk.configuration.engine import Engine, EngineLayout
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath
from amdgpu_discovery.command_line.edited import ConfigFile
from amdgpu_discovery.command_line.toml_document import TomlDocument
from amdgpu_discovery.host import Host

MAIN_FILE = "/etc/containerd/config.toml"
DROP_IN_GLOB = "/etc/containerd/conf.d/*.toml"
DROP_IN = "/etc/containerd/conf.d/99-amd.toml"
CRI_BY_VERSION = {
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
CRI_PLUGINS = tuple(dict.fromkeys(CRI_BY_VERSION.values()))
MERGING = (3, 4)
RUNC = "io.containerd.runc.v2"


def read(text: str) -> Document:
    """Read config.toml; DocumentError says so if it is a template."""
    try:
        return TomlDocument(text)
    except DocumentError as error:
        if "{{" not in text:
            raise
        lines = "the lines that \"amd-ctk runtime configure --runtime=containerd --config-path=''\" prints"
        raise DocumentError("it is a template, not TOML", hint=f"add {lines} by hand") from error


def on_host(host: Host) -> Engine:
    """Return containerd with its drop-in, if the main file imports and merges that; else with the main file."""
    file = ConfigFile(path=host.path(MAIN_FILE), shown=MAIN_FILE)
    try:
        main = TomlDocument(read_text(file) or "")
        imports = main.get(("imports",))
    except DocumentError:
        # The edit of the main file reports the error.
        return CONTAINERD
    if main.get(("version",)) not in MERGING or not isinstance(imports, list) or DROP_IN_GLOB not in imports:
        return CONTAINERD
    return CONTAINERD.replace(
        config_path=DROP_IN,
        find_layout=partial(find_drop_in_layout, main),
        # Checking the drop-in alone would not show how the two files merge.
        checked_text=lambda text: TomlDocument(text).set(("imports",), [file.path]).text,
        new_text="# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=containerd --remove'.\n",
    )


def find_layout(document: Document) -> EngineLayout:
    """Return the layout for the version of a configuration; DocumentError for a version without runtimes."""
    if document.is_empty:
        # The oldest version that every containerd in use reads.
        return _layout(2, runc=ABSENT, preamble=((("version",), 2),))
    version = document.get(("version",))
    # The version may be a list, which cannot be a dictionary key.
    if version not in tuple(CRI_BY_VERSION):
        written = "no version, which means 1" if version is ABSENT else f"version {version}"
        raise DocumentError(
            f"it has {written}, and runtimes need version 2, 3 or 4",
            hint="'containerd config migrate' prints a newer form of it",
        )
    return _layout(version, runc=document.get((*_runtimes(version), "runc")))


def find_drop_in_layout(main: Document, _: Document) -> EngineLayout:
    """Return the layout of a drop-in. It needs the version of the main file, because versions cannot be mixed."""
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
        make_entry=partial(_entry, runc if isinstance(runc, dict) else {}),
        program=("options", "BinaryName"),
        default_runtime=(*cri, "containerd", "default_runtime_name"),
        cdi=(*cri, "enable_cdi"),
        cdi_directories=(*cri, "cdi_spec_dirs"),
        # A table of runtimes replaces the built-in one of containerd 1, which contains runc.
        implicit_runtimes=(("runc", {"runtime_type": RUNC}),) if version == 2 else (),
        preamble=preamble,
    )


def _entry(runc: dict[str, Any], program: str) -> dict[str, Any]:
    """Return a runtime with the options of runc: above all, all runtimes must use the same cgroup driver."""
    return {
        "runtime_type": runc.get("runtime_type", RUNC),
        "options": {**runc.get("options", {}), "BinaryName": program},
    }


CONTAINERD = Engine(
    name="containerd",
    config_path=MAIN_FILE,
    read=read,
    find_layout=find_layout,
    service="containerd",
    file_options=("--config", "-c"),
    built_in=("runc",),
    check_command=lambda file: ("containerd", "--config", file, "config", "dump"),
    check_prints_configuration=True,
    new_text="",
    on_host=on_host,
)
