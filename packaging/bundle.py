"""Pin, download and unpack the third-party wheels in debs and rpms; all are pure Python and have a hash in bundle.lock.

`python bundle.py lock NAME==VERSION...` rewrites bundle.lock; `lock-builder` rewrites build.lock, the tools that build
the project's own wheels for a release.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from packages import Package

LOCK_FILE = Path(__file__).with_name("bundle.lock")
BUILDER_FILE = Path(__file__).with_name("build.lock")
# A wheel with machine code would tie a package to one python and one architecture; 3.10 is the oldest python.
PURE = ("--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any", "--python-version=3.10")
HEADER = """# Every third-party wheel in the debs and rpms, by: python packaging/bundle.py lock NAME==VERSION...
# jsonschema 4.17 is the last without native code; typer-slim is typer without the packages that colour its help.
# Tables on terminals need none of what rich draws source code and Markdown with (pygments, markdown-it-py).
"""
BUILDER_HEADER = """# What builds a release, by: python packaging/bundle.py lock-builder NAME==VERSION...
# hatchling and what it needs, and the pip that fetches the bundled wheels; tomli is for Python 3.10.
"""
LOCKS = {"lock": (LOCK_FILE, HEADER), "lock-builder": (BUILDER_FILE, BUILDER_HEADER)}


def read_lock() -> dict[str, str]:
    """Return the version of each distribution by name."""
    return dict(re.findall(r"^(\S+)==(\S+)", LOCK_FILE.read_text(encoding="utf-8"), re.MULTILINE))


def bundled_versions(package: Package) -> list[tuple[str, str]]:
    """Return the wheels that a package carries, each with its version."""
    versions = read_lock()
    return [(name, versions[name]) for name in map(normal_name, package.bundled)]


def download(directory: Path) -> dict[str, Path]:
    """Download the pinned wheels, or use those that are there; return them by name. A wrong hash fails."""
    subprocess.run([*_pip_download(directory), "--require-hashes", "-r", LOCK_FILE], check=True)
    wheels = {normal_name(wheel.name.partition("-")[0]): wheel for wheel in directory.glob("*-py3-none-any.whl")}
    return {name: wheels[normal_name(name)] for name in read_lock()}


def unpack(wheel: Path, directory: Path) -> None:
    """Unpack the modules of a wheel, and its metadata and licences, into a directory."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not _is_unwanted(name)]
        archive.extractall(directory, names)


def lock(file: Path, header: str, requirements: list[str]) -> None:
    """Pin these distributions and no others, so their dependencies must be among them."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([*_pip_download(Path(name)), *requirements], check=True)
        wheels = sorted(Path(name).iterdir(), key=lambda wheel: wheel.name.lower())
        lines = [_pin(wheel) for wheel in wheels]
    file.write_text(header + "".join(lines), encoding="utf-8")


def _is_unwanted(name: str) -> bool:
    """Return whether a file of a wheel is only for pip, or a test."""
    return ".data/" in name or "/tests/" in name or name.endswith("/RECORD")


def _pip_download(directory: Path) -> list[str]:
    return [sys.executable, "-m", "pip", "-q", "download", "--no-deps", *PURE, "-d", str(directory)]


def _pin(wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"{normal_name(name)}=={version} --hash=sha256:{digest_of(wheel)}\n"


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def normal_name(name: str) -> str:
    """Return the name of a distribution as package indexes normalise it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in LOCKS:
        sys.exit(__doc__)
    lock(*LOCKS[sys.argv[1]], sys.argv[2:])
