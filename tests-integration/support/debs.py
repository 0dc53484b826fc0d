"""Build this project's debs and install them in a box, like an administrator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.debootstrap import without_time_limit

if TYPE_CHECKING:
    from support.box import Box

BUILDER = Path(__file__).parents[2] / "packaging/debian.py"
# This package has no files, and needs all others configured first.
META_PACKAGE = "amd-container-toolkit_"


@without_time_limit()
def build_debs(directory: Path) -> Path:
    """Build the debs of this checkout into a directory and return it."""
    subprocess.run([sys.executable, BUILDER, directory], capture_output=True, check=True)
    return directory


def install_toolkit(box: Box, debs: Path) -> None:
    """Install the toolkit in a box."""
    names = sorted(deb.name for deb in debs.glob("*.deb") if not deb.name.startswith(META_PACKAGE))
    for name in names:
        (box.share / name).write_bytes((debs / name).read_bytes())
    box("dpkg", "--force-unsafe-io", "--install", *(f"/box/{name}" for name in names))
