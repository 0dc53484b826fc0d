"""What the files of Podman and containerd say of the AMD runtime, and what a user needs to run Podman without root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from functools import partial

from amd_ctk.configuration.engine import Engine, is_amd_runtime
from amd_ctk.doctor.facts.users import User
from amd_ctk.documents.document import ABSENT, Document, DocumentError, KeyPath
from amd_ctk.documents.toml_document import TomlDocument
from amd_ctk.engines.containerd import CONTAINERD, DROP_IN, MAIN_FILE, find_drop_in_layout
from amd_ctk.engines.podman import PODMAN
from amd_ctk.explain.engine_view import podman_files
from amd_ctk.programs import ask, parse_version
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.value import Value

# The longest that come with an engine have 30 KiB, most of it comments.
LARGEST = 128 * 1024
RANGES = ("/etc/subuid", "/etc/subgid")
NSSWITCH = "/etc/nsswitch.conf"
STORAGE = ".local/share/containers"


class EngineFileFacts(Value):
    """The files of one engine; problems are those of the first file that has one."""

    broken_file: str = ""
    problem: str = ""
    # The program of the AMD runtime that a file names and that is not there.
    missing_program: str = ""
    runtimes: tuple[str, ...] = ()
    # The last one that a file names.
    default_runtime: str = ""


def read_engine_files(host: Host, engine: Engine, paths: Iterable[str]) -> EngineFileFacts:
    """Return what files say, the strongest last; a file that cannot be read is a fact too."""
    facts = EngineFileFacts()
    programs: dict[str, str] = {}
    for path in paths:
        try:
            found, default = _read(engine, read_document(host, engine, path))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, ToolkitError) as error:
            facts = facts if facts.problem else facts.replace(broken_file=path, problem=why_not(error))
            continue
        programs |= found
        facts = facts.replace(default_runtime=default or facts.default_runtime)
    ours = {name: program for name, program in programs.items() if is_amd_runtime(program)}
    return facts.replace(runtimes=tuple(ours), missing_program=next(find_missing(ours.values()), ""))


def find_missing(programs: Iterable[str]) -> Iterator[str]:
    """Yield the programs with a path that are not there."""
    yield from (path for path in programs if "/" in path and not os.path.exists(path))


def read_values(host: Host, engine: Engine, paths: Iterable[str], key: KeyPath) -> list[object]:
    """Return the values of a key in files, the strongest last; a file that cannot be read has none."""
    found: list[object] = []
    for path in paths:
        try:
            found.append(read_document(host, engine, path).get(key))
        except (OSError, ValueError, RecursionError, ToolkitError):
            continue
    return [value for value in found if value is not ABSENT]


def read_document(host: Host, engine: Engine, path: str) -> Document:
    """Return a file of an engine; errors that `why_not` describes."""
    return engine.read(read_plain_file(host.path(path), largest=LARGEST)[0].decode())


def _read(engine: Engine, document: Document) -> tuple[dict[str, str], str]:
    """Return the programs of a file's runtimes, and its default runtime, "" where it names none."""
    try:
        layout = engine.find_layout(document)
        return layout.programs_in(document), layout.default_in(document)
    except DocumentError:
        # containerd's own file may have no version, and then no runtime either.
        return {}, ""


def why_not(error: Exception) -> str:
    """Return why a file cannot be read."""
    return reason(error) if isinstance(error, OSError) else str(getattr(error, "message", error))


def read_containerd(host: Host) -> EngineFileFacts:
    """Return what config.toml says, else the drop-in that this toolkit writes."""
    main = read_engine_files(host, CONTAINERD, [MAIN_FILE])
    if main.problem or main.runtimes:
        return main
    drop_in = CONTAINERD.replace(find_layout=partial(find_drop_in_layout, TomlDocument("")))
    return read_engine_files(host, drop_in, [DROP_IN])


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
    paths = podman_files(host, f"{user.home}/.config" if user else "")
    files = read_engine_files(host, PODMAN, paths)
    return PodmanFacts(
        is_installed=True,
        # This alone does not make it set itself up.
        version=parse_version(ask(["podman", "--version"]).output),
        files=files,
        refuses_runtime=_refuses(host, paths, files.runtimes),
        has_crun=shutil.which("crun") is not None,
        user=user,
        without_ranges=_without_ranges(host, user) if user else (),
        has_runtime_directory=user is None or host.stat(user.runtime_directory) is not None,
    )


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
