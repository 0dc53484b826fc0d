"""Lay out the contents of the deb packages below one directory, as after their postinst."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PACKAGING = Path(__file__).resolve().parent.parent / "packaging"
sys.path.insert(0, str(PACKAGING))

from packages import ASSEMBLE, HOOKS, LIBRARY  # noqa: E402 - the path had to be set first
from stage import stage_packages  # noqa: E402
from wheels import build_wheels  # noqa: E402

# The distribution's own python; that of a virtual environment is a link to it.
PYTHON = Path("/usr/bin/python3").resolve()


def install(directory: Path) -> Path:
    """Build and lay out all packages; return the directory that stands for /."""
    root = directory / "installed"
    for tree in stage_packages(directory / "work", interpreter=str(PYTHON), zsh_functions="unused").values():
        shutil.copytree(tree, root, symlinks=True, dirs_exist_ok=True)
    _move(root)
    subprocess.run([PYTHON, "-ISB", root / ASSEMBLE], check=True)
    return root


def install_with_pip(directory: Path) -> Path:
    """Build wheels and install them into a virtual environment as users do; return the environment."""
    environment = directory / "pip"
    wheels = directory / "wheels"
    # Uses the packages' interpreter, and a current pip: before 25.2 pip wrote programs that import re.
    subprocess.run([PYTHON, "-m", "venv", "--upgrade-deps", environment], check=True)
    subprocess.run([environment / "bin/pip", "install", "--quiet", *build_wheels(wheels, "wheel").values()], check=True)
    return environment


def _move(root: Path) -> None:
    """Make programs with absolute paths use the files below `root`, and none of this system."""
    for program in (ASSEMBLE, f"{HOOKS}/hook.py", f"{HOOKS}/release.sh"):
        text = (root / program).read_text(encoding="utf-8")
        for path in (f"/{LIBRARY}", "/usr/lib/tmpfiles.d", "/run/systemd"):
            text = text.replace(path, f"{root}{path}")
        (root / program).write_text(text, encoding="utf-8")
    (root / LIBRARY / "python3").unlink()
    (root / LIBRARY / "python3").symlink_to(PYTHON)
