"""What the files of Podman and containerd say about the AMD runtime, and what rootless Podman requires."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress

from amd_ctk.cdi.engine_directories import find_directories, without_gpus
from amd_ctk.configuration.engine import Engine, is_amd_runtime
from amd_ctk.configuration.own_file import find_own_file
from amd_ctk.doctor.facts.users import User
from amd_ctk.engines.containerd import CONTAINERD, DROP_IN, MAIN_FILE
from amd_ctk.engines.podman import PODMAN
from amd_ctk.engines.podman_files import podman_files
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath
from amdgpu_discovery.command_line.programs import ask, parse_version
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.value import Value

# The longest files that come with an engine have 30 KiB, most of it comments.
LARGEST = 128 * 1024
RANGES = ("/etc/subuid", "/etc/subgid")
NSSWITCH = "/etc/nsswitch.conf"
STORAGE = "containers"


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


class EngineFiles:
    """The readable files of an engine, in increasing priority; problems of the others are a fact too."""

    def __init__(self, host: Host, engine: Engine, paths: Iterable[str]) -> None:
        self._engine = engine
        self._documents: list[Document] = []
        self._broken = EngineFileFacts()
        for path in paths:
            try:
                self._documents.append(read_document(host, engine, path))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, ToolkitError) as error:
                if not self._broken.problem:
                    self._broken = EngineFileFacts(broken_file=path, problem=describe_error(error))

    def facts(self) -> EngineFileFacts:
        """Return what the files say about runtimes."""
        programs: dict[str, str] = {}
        default = ""
        for document in self._documents:
            # containerd's own file may have no version. Then it has no runtimes either.
            with suppress(DocumentError):
                layout = self._engine.find_layout(document)
                programs |= layout.programs_in(document)
                default = layout.default_in(document) or default
        ours = {name: program for name, program in programs.items() if is_amd_runtime(program)}
        missing = next(find_missing(ours.values()), "")
        return self._broken.replace(runtimes=tuple(ours), missing_program=missing, default_runtime=default)

    def last(self, key: KeyPath) -> object:
        """Return the value of a key in the file of highest priority that sets it, ABSENT if none does."""
        found: object = ABSENT
        for document in self._documents:
            with suppress(DocumentError):
                value = document.get(key)
                found = found if value is ABSENT else value
        return found


def find_missing(programs: Iterable[str]) -> Iterator[str]:
    """Yield the programs that are paths and do not exist."""
    yield from (path for path in programs if "/" in path and not os.path.exists(path))


def read_document(host: Host, engine: Engine, path: str, *, largest: int = LARGEST) -> Document:
    """Read a file of an engine; `describe_error` describes the errors that this raises."""
    return engine.read(read_plain_file(host.path(path), largest=largest)[0].decode())


def describe_error(error: Exception) -> str:
    """Return why a file cannot be read."""
    return reason(error) if isinstance(error, OSError) else str(getattr(error, "message", error))


def read_containerd(host: Host) -> EngineFileFacts:
    """Return what config.toml says; if it has no AMD runtime and no problem, what this toolkit's drop-in says."""
    own = find_own_file(host, CONTAINERD)
    if own.refusal and not os.access(host.path(own.path), os.R_OK):
        # k3s and others let only root read it.
        return EngineFileFacts()
    main = EngineFiles(host, CONTAINERD, [own.path]).facts().replace(refusal=own.refusal)
    return (
        main
        if own.path != MAIN_FILE or main.problem or main.runtimes
        else EngineFiles(host, CONTAINERD, [DROP_IN]).facts()
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
    files = read.facts()
    return PodmanFacts(
        is_installed=True,
        # This call does not make Podman set itself up.
        version=parse_version(ask(["podman", "--version"]).output),
        files=files,
        cdi_elsewhere=without_gpus(host, find_directories(host, PODMAN, paths)),
        gone_device=_find_gone_device(read, host),
        refuses_runtime=_refuses(read, files.runtimes),
        has_crun=shutil.which("crun") is not None,
        user=user,
        without_ranges=_without_ranges(host, user) if user else (),
        has_runtime_directory=user is None or host.stat(user.runtime_directory) is not None,
    )


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


def _without_ranges(host: Host, user: User) -> tuple[str, ...]:
    # A directory service may have the ranges: subid in nsswitch.conf(5).
    if any(line.split()[:1] == ["subid:"] for line in host.read_attribute(NSSWITCH).splitlines()):
        return ()
    names = (f"{user.name}:", f"{user.uid}:")
    return tuple(
        path for path in RANGES if not any(line.startswith(names) for line in host.read_attribute(path).splitlines())
    )
