"""Open GPU nodes as the container would, and record the errors."""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from amd_ctk.doctor.inside.child import held, names_below, reopen
from amd_ctk.rocm_nodes import NodeAccess
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DRM_MAJOR

DRI = "/dev/dri"
RENDER = re.compile("renderD[0-9]+")
MOST_CONTAINER_NODES = 512


class TriedNode(NodeAccess):
    """A device node in a container; `errno` is that of opening it, 0 if it opened, None if it was not tried.

    `major` and `minor` are None if there is no device at the path.
    """

    major: int | None = None
    minor: int | None = None
    errno: int | None = None

    @property
    def number(self) -> str:
        """Return the number of the device as text."""
        return f"{self.major}:{self.minor}"


def try_nodes(kfd: tuple[int, int] | None, own_files: int) -> list[dict[str, Any]]:
    """Try to open /dev/kfd and every render node, and return the results.

    `kfd` is the device number of the host's /dev/kfd, if it has one. `own_files` is the result of `open_own_files`.
    """
    return [_try(path, kfd, own_files).as_dict() for path in (KFD_PATH, *_render_paths())]


def _render_paths() -> list[str]:
    return [f"{DRI}/{name}" for name in names_below(DRI, MOST_CONTAINER_NODES) if RENDER.fullmatch(name)]


def _try(path: str, kfd: tuple[int, int] | None, own_files: int) -> TriedNode:
    try:
        with held(path) as handle:
            return _open_node(path, handle, kfd, own_files)
    except OSError as error:
        return TriedNode(path=path, errno=error.errno)


def _open_node(path: str, handle: int, kfd: tuple[int, int] | None, own_files: int) -> TriedNode:
    found = os.fstat(handle)
    if not stat.S_ISCHR(found.st_mode):
        return TriedNode(path=path)
    number = (os.major(found.st_rdev), os.minor(found.st_rdev))
    # Opening any other device may act, as with a watchdog.
    is_of_amd = number[0] == DRM_MAJOR if path != KFD_PATH else number == kfd
    return TriedNode(
        path=path,
        major=number[0],
        minor=number[1],
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        errno=_open(handle, own_files) if is_of_amd else None,
    )


def _open(handle: int, own_files: int) -> int:
    try:
        os.close(reopen(handle, os.O_RDWR, own_files))
    except OSError as error:
        return error.errno or 0
    return 0
