"""Become another user, in a child process."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence

import amd_gpu_tracker
import amdgpu_discovery


def become(uid: int, groups: Sequence[int] = ()) -> None:
    """Become another user permanently."""
    os.setgroups(list(groups))
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _import_what_is_imported_later() -> None:
    """Import what code imports inside functions: the checkout may lie where only root may read, as in /root."""
    for package in (amdgpu_discovery, amd_gpu_tracker):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)


_import_what_is_imported_later()
