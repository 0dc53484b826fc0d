"""Read the names in a directory that is the root file system of an image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from amd_ctk.image.bounds import STEP, Counter, ImageError, Progress
from amd_ctk.image.contents import LayerContents
from amd_ctk.image.deep import ELF, Programs
from amdgpu_discovery.errors import reason

CHUNK = 1 << 18


def read_directory(path: str, progress: Progress, *, deep: bool) -> LayerContents:
    """Return what the files below a directory say. No link is followed. ImageError where it cannot be read."""
    progress.layer = path
    counter = Counter(progress)
    layer = LayerContents()
    programs = Programs()
    names = 0
    for entry in _walk(path):
        names += 1
        if names % STEP == 0:
            counter.count(STEP)
            counter.pass_by(0)
        if entry.is_file(follow_symlinks=False):
            layer.add(os.path.relpath(entry.path, path), _find_inside(entry.path, programs) if deep else ())
    counter.count(names % STEP)
    return layer


def _walk(path: str) -> Iterator[os.DirEntry[str]]:
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            raise ImageError(f"{directory} cannot be read: {reason(error)}") from error


def _find_inside(path: str, programs: Programs) -> set[str]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            is_program = file.read(len(ELF)) == ELF
            return programs.targets_in(_chunks(file)) if is_program else set()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {reason(error)}") from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk
