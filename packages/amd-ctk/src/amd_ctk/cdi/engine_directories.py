"""In which directories an engine looks for CDI specs, according to its files and its unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from amd_ctk.cdi.engine_devices import SpecFile, read_spec_files
from amd_ctk.cdi.generate_options import SPEC_DIRECTORIES
from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.own_file import find_path
from amd_ctk.configuration.unit_files import read_command_line
from amd_device_spec.cdi import KIND
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

# An option of dockerd, and of Podman 5.8 and later.
OPTION = "--cdi-spec-dir"
MOST_CDI_DIRECTORIES = 16


def find_directories(host: Host, engine: Engine, files: Iterable[str]) -> tuple[str, ...]:
    """Return the directories of an engine by increasing priority. `files` are its own, by increasing priority too."""
    options = read_command_line(host, f"{engine.service}.service").values_of(OPTION) if engine.service else []
    found: tuple[str, ...] = SPEC_DIRECTORIES
    for path in files:
        with suppress(OSError, ValueError, ToolkitError):
            document = engine.read(host.read(path).decode())
            key = engine.find_layout(document).cdi_directories
            value = document.get(key) if key else None
            if isinstance(value, list) and value:
                # In containers.conf, {append=true} keeps the directories of the files before.
                before = found if {"append": True} in value else ()
                found = (*before, *normalized(each for each in value if isinstance(each, str)))
    return normalized(options) if options else found


def normalized(directories: Iterable[object]) -> tuple[str, ...]:
    """Return directories without empty names; /var/run is a link to /run."""
    names = [str(each).removeprefix("/var") if str(each).startswith("/var/run/") else str(each) for each in directories]
    return tuple(name.rstrip("/") for name in names[:MOST_CDI_DIRECTORIES] if name)


def find_own_directories(host: Host) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the engines of root whose directories are not the usual ones, with their directories."""
    # Their libraries take as long to load as everything else here.
    from amd_ctk.engines.containerd import CONTAINERD
    from amd_ctk.engines.docker import DOCKER
    from amd_ctk.engines.podman import PODMAN
    from amd_ctk.engines.podman_files import podman_files

    files = {
        DOCKER: [find_path(host, DOCKER)],
        PODMAN: podman_files(host, ""),
        CONTAINERD: [find_path(host, CONTAINERD)],
    }
    for engine, paths in files.items():
        directories = find_directories(host, engine, paths)
        if directories != SPEC_DIRECTORIES:
            yield engine.name, directories


def without_gpus(host: Host, directories: tuple[str, ...]) -> tuple[str, ...]:
    """Return the directories of an engine if they are not the usual ones and none offers AMD GPUs, else ()."""
    is_usual = not set(directories).isdisjoint(SPEC_DIRECTORIES)
    return () if is_usual or _offers_gpus(read_spec_files(host, directories)) else directories


def _offers_gpus(directories: Iterable[Iterable[SpecFile]]) -> bool:
    return any(name.startswith(f"{KIND}=") for files in directories for file in files for name in file.names)


def read_all_spec_files(host: Host, others: Sequence[str]) -> list[list[SpecFile]]:
    """Return the files of the usual directories, and those of `others` if no usual one offers AMD GPUs."""
    usual = read_spec_files(host)
    if _offers_gpus(usual):
        return usual
    return [*usual, *read_spec_files(host, [each for each in others if each not in SPEC_DIRECTORIES])]
