"""What Podman's configuration files add to each container: devices and variables.

They are added by `podman run`, for Docker's API, and by `podman kube play`, in Podman 4 without the variables.
"""

from __future__ import annotations

from amd_ctk.explain.container import SETTINGS, Container
from amd_ctk.explain.engine_view import find_version, read_files
from amd_ctk.explain.host_nodes import is_cdi_name
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Only an engine's command needs its files.
    from amd_ctk.configuration.engine_files import EngineFiles
    from amdgpu_discovery.command_line.document import KeyPath

DEVICES, VARIABLES = (("containers", name) for name in SETTINGS)


def add_settings(container: Container, host: Host) -> Container:
    """Return a container with the devices and variables of Podman's files; the variables of its image override them."""
    files = read_files(container, host)
    devices = _texts(files, DEVICES)
    wanted = SETTINGS if container.is_podman_api else container.settings
    variables = _texts(files, VARIABLES) if VARIABLES[-1] in wanted else []
    refused = _refused_by_podman_4(files, devices)
    if refused and not () < find_version(container, host) < (5,):
        refused = []
    return container.replace(
        devices=(*devices, *container.devices),
        image_environment=(*variables, *container.image_environment),
        refusals=(*container.refusals, *refused),
    )


def _texts(files: EngineFiles, key: KeyPath) -> list[str]:
    """Return the texts of a list. The last file's list replaces those before, unless it has `{append = true}`."""
    texts: list[str] = []
    for value in files.values(key):
        entries = value if isinstance(value, list) else []
        if not any(isinstance(entry, dict) and entry.get("append") is True for entry in entries):
            texts = []
        texts += [entry for entry in entries if isinstance(entry, str)]
    return texts


def _refused_by_podman_4(files: EngineFiles, devices: list[str]) -> list[ToolkitError]:
    """Return why Podman 4 runs no command at all: it knows neither CDI devices nor tables in these lists."""
    lists = [value for key in (DEVICES, VARIABLES) for value in files.values(key) if isinstance(value, list)]
    wrong = [f"invalid device mode: {device}" for device in devices if is_cdi_name(device)]
    if any(isinstance(entry, dict) for entries in lists for entry in entries):
        wrong.append("incompatible types: {append}")
    return [ToolkitError(f"podman: its configuration: {one}", hint="Podman 5 reads it") for one in wrong]
