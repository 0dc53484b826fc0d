"""Which names of files in an image tell something: code objects and their targets, what a layer deletes."""

from __future__ import annotations

import re

# LLVM's processors from gfx600 on. Anything may follow: MIOpen adds the number of compute units (gfx90a68.kdb).
# SPIR-V is compiled for the GPU on which it is loaded.
TARGET = re.compile(r"gfx(?:[0-9]+(?:-[0-9]+)?-generic|1[0-9]{2}[0-9a-f]|[6-9][0-9a-f]{2})|amdgcnspirv")
# Files of rocBLAS, hipBLASLt, MIOpen, PyTorch and AOTriton that have code for the targets in their path.
CODE_SUFFIXES = (".co", ".dat", ".hsaco", ".kdb", ".kdb.bz2", ".aks2")
# OCI image specification, "Whiteouts".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# PATH_MAX of Linux.
LONGEST_PATH = 4096


def targets_in(path: str) -> list[str]:
    """Return the targets for which a file has code, by its path."""
    return TARGET.findall(path) if path.endswith(CODE_SUFFIXES) else []


def clean(path: str) -> str:
    """Return a path in a layer without "./" or "/" in front; "" where it leads out of the layer or is too long."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "" if ".." in parts or len(path) > LONGEST_PATH else "/".join(parts)
