"""Build wheels and source distributions of the eight distributions. Example: python packaging/wheels.py DIRECTORY"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from packages import PACKAGES, ROOT, source_date


def build_wheels(directory: Path, *kinds: str) -> dict[str, Path]:
    """Build these kinds of distributions, with the same bytes from the same commit; return the wheels by name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source_date())}
    targets = [word for kind in kinds for word in ("-t", kind)]
    wheels = {}
    for package in PACKAGES:
        if not package.is_meta:
            command = [sys.executable, "-m", "hatchling", "build", *targets, "-d", str(directory.resolve())]
            subprocess.run(command, cwd=ROOT / "packages" / package.name, env=environment, check=True)
            wheels[package.name] = next(directory.glob(f"{package.name.replace('-', '_')}-*.whl"))
    return wheels


if __name__ == "__main__":
    build_wheels(Path(sys.argv[1]), "sdist", "wheel")
