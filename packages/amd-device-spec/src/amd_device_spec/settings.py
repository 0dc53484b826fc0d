"""The administrator's settings: what they are, and reading them at the price of a container start.

People write `config.toml`; `amd-ctk config` compiles it to flat `key=value` lines, because parsing TOML costs more than
all else a container start does. The compiled form carries the time and size of the TOML it was made from, and where
these are not the file's any more, or there is no compiled form, the TOML itself is read.
"""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

    from amdgpu_discovery.host import Host

CONFIG_FILE = "/etc/amd-container-toolkit/config.toml"
COMPILED_FILE = "/etc/amd-container-toolkit/config.compiled"


class SettingsError(ToolkitError):
    """Settings that cannot be read or mean nothing; nothing is assumed in their place."""

    exit_code = 8


class Settings(Value):
    """What an administrator can choose; docs/reference/config.md says what each key does."""

    unknown_gpus: str = "error"
    device_mode: str = "open"
    low_level_runtime: str = ""
    swarm_resources: tuple[str, ...] = ("AMD_GPU", "GPU", "GPU_COMPUTE")
    swarm_resource_names: str = "uuid"
    swarm_vram_resources: tuple[str, ...] = ()
    visible_devices_env: str = "always"
    log_level: str = "info"
    log_file: str = ""


def read_settings(host: Host) -> Settings:
    """Return the settings of a host, the defaults where it has no config.toml; SettingsError."""
    try:
        source = host.stat(CONFIG_FILE)
        if source is None:
            return Settings()
        compiled = host.read(COMPILED_FILE) if host.stat(COMPILED_FILE) else b""
    except OSError as error:
        raise SettingsError(f"the settings in {host.path(CONFIG_FILE)} cannot be read: {reason(error)}") from error
    # Most hosts have none, and their container starts do without what this takes.
    from amd_device_spec.settings_rules import check_settings, parse_compiled, read_toml

    values = parse_compiled(compiled, stamp(source))
    return check_settings(read_toml(host) if values is None else values, host.path(CONFIG_FILE))


def stamp(source: os.stat_result) -> str:
    """Return what tells one version of a config.toml from another."""
    return f"{source.st_mtime_ns}.{source.st_size}"
