"""Podman's files, and what a user needs to run it without root."""

from __future__ import annotations

import os
import shutil

from amd_ctk.doctor.facts.engine_files import EngineFileFacts, read_engine_files, read_values
from amd_ctk.doctor.facts.users import User
from amd_ctk.engines.podman import PODMAN
from amd_ctk.explain.engine_view import podman_files
from amd_ctk.programs import ask, parse_version
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RANGES = ("/etc/subuid", "/etc/subgid")
NSSWITCH = "/etc/nsswitch.conf"
STORAGE = ".local/share/containers"
USER_CONF = ".config/containers/containers.conf"
# Users write these, and root may read them.
MOST_DROP_INS = 32


class PodmanFacts(Value):
    """Podman; `user` runs it without root, None if no user does."""

    is_installed: bool = False
    version: tuple[int, ...] = ()
    files: EngineFileFacts = EngineFileFacts()
    # Containers have no cgroup, and the AMD runtime is not among those that Podman lets do without.
    refuses_runtime: bool = False
    has_crun: bool = False
    user: User | None = None
    # Of /etc/subuid and /etc/subgid, those that give the user no ids.
    without_ranges: tuple[str, ...] = ()
    has_runtime_directory: bool = True

    @property
    def keeps_groups(self) -> bool:
        """Return whether containers run under crun, which alone knows `--group-add keep-groups`."""
        chosen = os.path.basename(self.files.default_runtime)
        return chosen.startswith("crun") or (self.has_crun and chosen != "runc")


def read_podman(host: Host, user: User | None, *, is_meant: bool = False) -> PodmanFacts:
    """Return what there is to know without asking Podman, which sets itself up when it is asked.

    A `user` counts who has containers of Podman, or where Podman `is_meant`.
    """
    if shutil.which("podman") is None:
        return PodmanFacts()
    if user and not is_meant and host.stat(f"{user.home}/{STORAGE}") is None:
        user = None
    paths = _files(host, user)
    files = read_engine_files(host, PODMAN, paths)
    return PodmanFacts(
        is_installed=True,
        # This alone does not make it set itself up.
        version=parse_version(ask(["podman", "--version"]).output.strip().rpartition(" ")[2]),
        files=files,
        refuses_runtime=_refuses(host, paths, files.runtimes),
        has_crun=shutil.which("crun") is not None,
        user=user,
        without_ranges=_without_ranges(host, user) if user else (),
        has_runtime_directory=user is None or host.stat(user.runtime_directory) is not None,
    )


def _files(host: Host, user: User | None) -> list[str]:
    own = f"{user.home}/{USER_CONF}" if user else ""
    drop_ins = sorted(f"{own}.d/{name}" for name in host.names(f"{own}.d") if name.endswith(".conf")) if own else []
    return [*podman_files(host), *([own] if own else []), *drop_ins[:MOST_DROP_INS]]


def _refuses(host: Host, paths: list[str], runtimes: tuple[str, ...]) -> bool:
    cgroups = read_values(host, PODMAN, paths, ("containers", "cgroups"))
    # With an "s" at its end in Podman's manual, and without in Podman.
    able = read_values(host, PODMAN, paths, ("engine", "runtime_supports_nocgroup"))
    named = able[-1] if able and isinstance(able[-1], list) else []
    return cgroups[-1:] == ["disabled"] and not any(runtime in named for runtime in runtimes)


def _without_ranges(host: Host, user: User) -> tuple[str, ...]:
    # A directory service may have them: subid in nsswitch.conf(5).
    if any(line.split()[:1] == ["subid:"] for line in host.read_attribute(NSSWITCH).splitlines()):
        return ()
    names = (f"{user.name}:", f"{user.uid}:")
    return tuple(
        path for path in RANGES if not any(line.startswith(names) for line in host.read_attribute(path).splitlines())
    )
