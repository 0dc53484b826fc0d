"""What the files of Podman and containerd say about the AMD runtime, and what rootless Podman requires."""

from __future__ import annotations

import os
import shutil

from amd_ctk.cdi.engine_directories import find_directories, without_gpus
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.configuration.engine_files import EngineFiles, find_missing
from amd_ctk.configuration.own_file import find_own_file
from amd_ctk.doctor.facts.users import User
from amd_ctk.engines.containerd import CONTAINERD, CRI_PLUGINS, DROP_IN, MAIN_FILE
from amd_ctk.engines.podman import PODMAN
from amd_ctk.engines.podman_files import podman_files
from amdgpu_discovery.command_line.document import ABSENT
from amdgpu_discovery.command_line.programs import ask, parse_version, runs_systemd
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RANGES = ("/etc/subuid", "/etc/subgid")
NSSWITCH = "/etc/nsswitch.conf"
STORAGE = "containers"
# What engines call it if they make cgroups without systemd.
CGROUPFS = "cgroupfs"


class EngineFileFacts(Value):
    """The files of one engine; `broken_file` is the first with a problem, and `problem` describes it."""

    broken_file: str = ""
    problem: str = ""
    # The program of the AMD runtime that a file names but that is missing.
    missing_program: str = ""
    runtimes: tuple[str, ...] = ()
    # The last one that a file sets.
    default_runtime: str = ""
    # Why amd-ctk does not edit the file that the engine reads; None if it does.
    refusal: ToolkitError | None = None
    # Whether the engine makes the cgroups of containers under the AMD runtime itself, and not systemd.
    uses_cgroupfs: bool = False


def read_containerd(host: Host) -> EngineFileFacts:
    """Return what config.toml says; if it has no AMD runtime and no problem, what this toolkit's drop-in says."""
    own = find_own_file(host, CONTAINERD)
    if own.refusal and not os.access(host.path(own.path), os.R_OK):
        # k3s and others let only root read it.
        return EngineFileFacts()
    main = _facts_of_containerd(host, own.path).replace(refusal=own.refusal)
    is_whole = own.path != MAIN_FILE or main.problem or main.runtimes
    return main if is_whole else _facts_of_containerd(host, DROP_IN)


def _facts_of_containerd(host: Host, path: str) -> EngineFileFacts:
    files = EngineFiles(host, CONTAINERD, [path])
    found = _facts_of(files)

    def is_by_systemd(name: str) -> bool:
        tables = (("plugins", cri, "containerd", "runtimes", name) for cri in CRI_PLUGINS)
        return any(files.last((*table, "options", "SystemdCgroup")) is True for table in tables)

    return found.replace(uses_cgroupfs=not all(map(is_by_systemd, found.runtimes)))


def _facts_of(files: EngineFiles) -> EngineFileFacts:
    programs, default = files.read_runtimes()
    ours = {name: program for name, program in programs.items() if is_amd_runtime(program)}
    return EngineFileFacts(
        broken_file=files.broken_file,
        problem=files.problem,
        missing_program=next(find_missing(ours.values()), ""),
        runtimes=tuple(ours),
        default_runtime=default,
    )


class PodmanFacts(Value):
    """Podman; `user` runs it without root, None if no user does."""

    is_installed: bool = False
    version: tuple[int, ...] = ()
    files: EngineFileFacts = EngineFileFacts()
    # Where Podman looks for CDI specs, if that is elsewhere and none there offers AMD GPUs.
    cdi_elsewhere: tuple[str, ...] = ()
    # A device that containers.conf gives to every container and that does not exist.
    gone_device: str = ""
    # Containers have no cgroup, and Podman does not let the AMD runtime run without one.
    refuses_runtime: bool = False
    has_crun: bool = False
    user: User | None = None
    # The files among /etc/subuid and /etc/subgid that give the user no ids.
    without_ranges: tuple[str, ...] = ()
    has_runtime_directory: bool = True

    @property
    def keeps_groups(self) -> bool:
        """Return whether containers run under crun, the only runtime that knows `--group-add keep-groups`."""
        chosen = os.path.basename(self.files.default_runtime)
        return chosen.startswith("crun") or (self.has_crun and chosen != "runc")


def read_podman(host: Host, user: User | None, *, is_chosen: bool = False) -> PodmanFacts:
    """Return the facts about Podman without asking it, because that would make it set itself up.

    A `user` counts only with containers of Podman, or if Podman `is_chosen`.
    """
    if shutil.which("podman") is None:
        return PodmanFacts()
    if user and not is_chosen and host.stat(f"{user.data}/{STORAGE}") is None:
        user = None
    paths = podman_files(host, user.settings if user else "")
    read = EngineFiles(host, PODMAN, paths)
    files = _facts_of(read)
    return PodmanFacts(
        is_installed=True,
        # This call does not make Podman set itself up.
        version=parse_version(ask(["podman", "--version"]).output),
        files=files.replace(uses_cgroupfs=_uses_cgroupfs(host)),
        cdi_elsewhere=without_gpus(host, find_directories(host, PODMAN, paths)),
        gone_device=_find_gone_device(read, host),
        refuses_runtime=_refuses(read, files.runtimes),
        has_crun=shutil.which("crun") is not None,
        user=user,
        without_ranges=find_without_ranges(host, user.name, str(user.uid)) if user else (),
        has_runtime_directory=user is None or host.stat(user.runtime_directory) is not None,
    )


def _uses_cgroupfs(host: Host) -> bool:
    """Return whether root's Podman makes the cgroups of its AMD runtime itself: only root's containers have limits."""
    of_root = EngineFiles(host, PODMAN, podman_files(host, ""))
    manager = of_root.last(("engine", "cgroup_manager"))
    is_own = manager == CGROUPFS or (manager is ABSENT and not runs_systemd(host))
    return is_own and bool(_facts_of(of_root).runtimes)


def _find_gone_device(files: EngineFiles, host: Host) -> str:
    """Return the first of the devices in [containers] whose node is gone, "" if there is none."""
    listed = files.last(("containers", "devices"))
    paths = [str(word).partition(":")[0] for word in listed] if isinstance(listed, list) else []
    return next((path for path in paths if path.startswith("/dev/") and host.stat(path) is None), "")


def _refuses(files: EngineFiles, runtimes: tuple[str, ...]) -> bool:
    # Podman's manual spells the key with a final "s", Podman without.
    able = files.last(("engine", "runtime_supports_nocgroup"))
    named = able if isinstance(able, list) else []
    return files.last(("containers", "cgroups")) == "disabled" and not any(runtime in named for runtime in runtimes)


def find_without_ranges(host: Host, *names: str) -> tuple[str, ...]:
    """Return the files among /etc/subuid and /etc/subgid that give a user with one of these names no ids."""
    # A directory service may have the ranges: subid in nsswitch.conf(5).
    if any(line.split()[:1] == ["subid:"] for line in host.read_attribute(NSSWITCH).splitlines()):
        return ()
    lines = {path: host.read_attribute(path).splitlines() for path in RANGES}
    begins = tuple(f"{name}:" for name in names)
    return tuple(path for path in RANGES if not any(line.startswith(begins) for line in lines[path]))
