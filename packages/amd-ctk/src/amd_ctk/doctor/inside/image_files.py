"""What a container's files have of ROCm, and which kernels it compiled itself; only known directories are read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from amd_ctk.doctor.inside.child import held, names_below, reopen
from amdgpu_discovery.tables.targets import TARGET_PATTERN

OPT = "/opt"
VERSION = ".info/version"
PROGRAM_DIRECTORIES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")
# Earlier versions call lsmod, so they contain its name. Later ones read /sys/module.
ROCMINFO = ("/opt/rocm/bin/rocminfo", "/opt/rocm-*/bin/rocminfo", "/usr/bin/rocminfo")
LSMOD = b"lsmod"
LARGEST_PROGRAM = 1024 * 1024
RCCL = (
    "/opt/rocm*/lib/librccl.so*",
    "/usr/lib/x86_64-linux-gnu/librccl.so*",
    "/usr/local/lib/python3*/*-packages/torch/lib/librccl.so*",
    "/opt/*/lib/python3*/site-packages/torch/lib/librccl.so*",
)
INFINIBAND = "/dev/infiniband"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the container's, of which only the size is asked
# Here libraries keep a file for each target that they have code for; `*` is any name.
LIBRARIES = (
    "/opt/rocm*/lib/rocblas/library",
    "/opt/rocm*/lib/hipblaslt/library",
    "/usr/lib/x86_64-linux-gnu/rocblas/*/library",
    "/usr/lib/python3*/*-packages/torch/lib/rocblas/library",
    "/usr/local/lib/python3*/*-packages/torch/lib/rocblas/library",
    "/usr/local/lib/python3*/*-packages/_rocm_sdk_libraries*/lib/rocblas/library",
    "/opt/*/lib/python3*/site-packages/torch/lib/rocblas/library",
    "/opt/*/envs/*/lib/python3*/site-packages/torch/lib/rocblas/library",
    "/usr/lib/ollama/rocm/rocblas/library",
    "/usr/lib/ollama/rocblas/library",
)
MOST_VERSION_DIRECTORIES = 1000
MOST_TARGETS = 64
TARGET = re.compile(TARGET_PATTERN)
LONGEST_VERSION = 64
# The container controls this value, and advice repeats it, so only plain paths are accepted.
HOME = re.compile(r"/[\w./-]{1,200}", re.ASCII)
USUAL_HOME = "/root"
# Caches of MIOpen, the code object manager and Triton.
CACHES = (".cache/miopen", ".cache/comgr", ".triton/cache")
MOST_CACHES = 1000


def read_image_files(own_files: int, *, home: str, start: float) -> dict[str, Any]:
    """Return what this process's root directory has of ROCm; MOST_TARGETS + 1 targets stand for any larger number.

    `own_files` is from `open_own_files`, `home` is that of the container's user, and `start` is the container's start.
    """
    return {
        "rocm_version": _read_version(own_files),
        "targets": sorted(_find_targets())[: MOST_TARGETS + 1],
        "has_lsmod": any(os.path.exists(f"{directory}/lsmod") for directory in PROGRAM_DIRECTORIES),
        "asks_lsmod": any(LSMOD in _read(path, LARGEST_PROGRAM, own_files) for path in _find(ROCMINFO)),
        "compiled": find_compiled(home, start),
        "shared_memory": _size_of_shared_memory(),
        "has_rccl": any(map(os.path.exists, _find(RCCL))),
        "has_infiniband": bool(names_below(INFINIBAND)),
    }


def _read_version(own_files: int) -> str:
    for name in ("rocm", *(name for name in names_below(OPT) if name.startswith("rocm-"))):
        text = _read_line(f"{OPT}/{name}/{VERSION}", own_files)
        if text:
            return text
    return ""


def _read_line(path: str, own_files: int) -> str:
    return _read(path, LONGEST_VERSION, own_files).decode("utf-8", "replace").partition("\n")[0].strip()


def _read(path: str, largest: int, own_files: int) -> bytes:
    """Return the start of a file, b"" if there is none."""
    try:
        with held(path) as handle:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return b""
            descriptor = reopen(handle, os.O_RDONLY, own_files)
        with open(descriptor, "rb") as file:
            return file.read(largest)
    except OSError:
        return b""


def _find_targets() -> set[str]:
    return {target for path in _find(LIBRARIES) for name in names_below(path) for target in TARGET.findall(name)}


def _find(patterns: tuple[str, ...]) -> list[str]:
    return [
        path for pattern in patterns for path in islice(_expand("", pattern.split("/")[1:]), MOST_VERSION_DIRECTORIES)
    ]


def _expand(directory: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        yield directory
        return
    begin, star, end = parts[0].partition("*")
    names = [parts[0]]
    if star:
        names = [name for name in names_below(directory) if name.startswith(begin) and name.endswith(end)]
    for name in names:
        yield from _expand(f"{directory}/{name}", parts[1:])


def _size_of_shared_memory() -> int | None:
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def find_home(variables: Mapping[str, str]) -> str:
    """Return the home directory of a container's user, USUAL_HOME if the variable is not a plain path."""
    home = variables.get("HOME", "")
    return home.rstrip("/") if HOME.fullmatch(home) else USUAL_HOME


def is_above_cache(path: str, home: str) -> bool:
    """Return whether a path is a cache below a home directory, or a directory above one."""
    return any(f"{home}/{name}/".startswith(f"{path.rstrip('/')}/") for name in CACHES)


def find_compiled(home: str, start: float) -> list[str]:
    """Return the caches below a home directory with an entry changed after `start`, in seconds since 1970."""
    return [path for path in (f"{home}/{name}" for name in CACHES) if any(made > start for made in _times(path))]


def _times(path: str) -> Iterator[float]:
    """Yield when each entry of a cache was last changed."""
    try:
        with os.scandir(path) as entries:
            for entry in islice(entries, MOST_CACHES):
                yield entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return
