"""The low-level runtime that amd-container-runtime uses, chosen when an engine is configured."""

from __future__ import annotations

import os

from amd_ctk.settings_file import read_settings_file, set_setting
from amd_device_spec.settings import SettingsError
from amdgpu_discovery.files import writable_by_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.host import Host

# Where amd-container-runtime looks too when it is called without a PATH.
USUAL_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def find_only_crun(directories: Sequence[str]) -> str:
    """Return the path of crun where these directories hold no runc, else ""."""
    return "" if _find("runc", directories) else _find("crun", directories)


def check_low_level_runtime(path: str) -> None:
    """Raise SettingsError for the path of a program that others may replace, which engines run as root."""
    if not (os.path.isabs(path) and os.path.exists(path)):
        return
    if replaceable := replaceable_part(path):
        raise SettingsError(
            f"the low-level runtime {path} can be replaced by users other than root, who may write to {replaceable}",
            hint=f"make it writable by root only; 'ls -ld {replaceable}' shows its owner and mode",
        )


def replaceable_part(path: str) -> str:
    """Return what of a program's path, or of where it leads, users other than root may replace, "" for nothing."""
    return writable_by_others(path) or writable_by_others(os.path.realpath(path))


def pin(host: Host, path: str) -> bool:
    """Make `path` the low-level runtime unless one is chosen already; return whether that changed the settings."""
    return not read_settings_file(host).get("low-level-runtime") and set_setting(host, "low-level-runtime", path)


def _find(name: str, directories: Sequence[str]) -> str:
    candidates = (os.path.join(directory, name) for directory in directories if os.path.isabs(directory))
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), "")
