"""Whether any engine's settings may name directories of CDI specs: a quick look, without the libraries of the files."""

from __future__ import annotations

from amd_ctk.engines.podman_files import podman_files
from amdgpu_discovery.host import Host

UNITS = ("docker.service", "containerd.service")
# Where administrators and packages have units; drop-ins are beside them.
UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
FILES = ("/etc/docker/daemon.json", "/etc/containerd/config.toml", "/etc/default/docker")
# An option or a key for such directories, or an option that names another file.
WORDS = ("cdi-spec-dir", "cdi_spec_dirs", "--config", " -c")


def may_name_directories(host: Host) -> bool:
    """Return False if no file of an engine mentions such directories, or another file."""
    units = [f"{directory}/{unit}" for directory in UNIT_DIRECTORIES for unit in UNITS]
    drop_ins = [f"{unit}.d/{name}" for unit in units for name in host.names(f"{unit}.d")]
    texts = host.read_attributes([*FILES, *podman_files(host, ""), *units, *drop_ins])
    return any(word in text for text in texts for word in WORDS)
