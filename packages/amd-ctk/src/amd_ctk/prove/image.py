"""Make the image of a proof from this host's python3 and the probe, so that nothing has to be pulled."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from amd_ctk.prove import probe
from amdgpu_discovery.command_line.programs import ask
from amdgpu_discovery.errors import ToolkitError

PROBE = "/probe.py"
# Prints the modules that the probe loads, and a landmark by which Python finds its library. Others are built in.
LOADED = """
import __future__, array, encodings.utf_8, fcntl, os, sys
print(os.__file__, *(getattr(module, "__file__", "") or "" for module in [*sys.modules.values()]), sep="\\n")
"""
# Engines make nodes and mount file systems in these.
DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run")


class NoImage(ToolkitError):
    """The image of a proof cannot be made on this host."""


def interpreter() -> str:
    """Return the path of the python3 in the image."""
    return os.path.realpath(sys.executable)


def probe_command(foreign: str) -> list[str]:
    """Return the command that runs the probe inside; `foreign` are render minors, separated by commas."""
    return [interpreter(), "-ISB", PROBE, foreign]


def pack_image() -> bytes:
    """Return the root file system of the image as a tar archive; NoImage."""
    packed = io.BytesIO()
    modules = _find_modules()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path in sorted({interpreter(), *modules, *_find_libraries(modules)}):
            _add(archive, path, Path(path).read_bytes(), mode=0o755)
        _add(archive, PROBE, Path(probe.__file__).read_bytes(), mode=0o644)
    return packed.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _find_modules() -> list[str]:
    answer = ask([interpreter(), "-ISB", "-c", LOADED])
    if not answer.succeeded:
        raise NoImage(f"{interpreter()} does not list its libraries: {answer.problem or answer.errors.strip()}")
    return [line for line in answer.output.splitlines() if line.startswith("/")]


def _find_libraries(modules: Sequence[str]) -> Iterator[str]:
    """Yield the shared libraries of the interpreter and its `modules`, as the dynamic linker finds them."""
    for program in (interpreter(), *(path for path in modules if path.endswith(".so"))):
        answer = ask(["ldd", program])
        if not answer.is_installed:
            raise NoImage("ldd, which lists the libraries of python3, is not installed", hint="it comes with glibc")
        for line in answer.output.splitlines():
            # libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...), and the linker itself without an arrow.
            path = line.partition("=>")[2].strip() or line.strip()
            if path.startswith("/"):
                yield path.partition(" ")[0]
