"""Which configuration files Podman reads; without its library, which takes long to load."""

from __future__ import annotations

import os

from amdgpu_discovery.host import Host

# Podman's configuration files, in increasing priority.
CONTAINERS_CONF = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
CONTAINERS_CONF_D = "/etc/containers/containers.conf.d"
# Below a user's own settings, which root may read too.
OWN_CONF = "containers/containers.conf"
MOST_ENGINE_DROP_INS = 32
# The first Podman that reads `cdi_spec_dirs` and has this option.
FIRST_WITH_SPEC_DIRECTORIES = (5, 8)
SPEC_DIRECTORY_OPTION = "--cdi-spec-dir"
# Names the only file, and one that overrides all; containers.conf(5).
ONLY, OVERRIDE = "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"


def podman_files(host: Host, own_settings: str) -> list[str]:
    """Return Podman's configuration files, in increasing priority; `own_settings` is "" if root runs Podman."""
    only, override = os.environ.get(ONLY), os.environ.get(OVERRIDE)
    files = [only] if only else _usual_files(host, own_settings)
    if override:
        files.append(override)
    return files


def _usual_files(host: Host, own_settings: str) -> list[str]:
    files = [*CONTAINERS_CONF, *_drop_ins(host, CONTAINERS_CONF_D)]
    if not own_settings:
        return files
    own = f"{own_settings}/{OWN_CONF}"
    return [*files, own, *_drop_ins(host, f"{own}.d")[:MOST_ENGINE_DROP_INS]]


def _drop_ins(host: Host, directory: str) -> list[str]:
    return sorted(f"{directory}/{name}" for name in host.names(directory) if name.endswith(".conf"))
