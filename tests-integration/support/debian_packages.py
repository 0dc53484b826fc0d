"""Download packages of a Debian release without installing anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.debootstrap import KEYRING, archive
from support.installed import engine_program


class NoNetwork(Exception):
    """Debian's archive cannot be reached."""


class DebianRelease:
    """The packages of a release; apt's lists and settings are in a separate directory."""

    def __init__(self, suite: str, directory: Path) -> None:
        self._directory = directory
        for name in ("lists/partial", "cache/archives/partial"):
            (directory / name).mkdir(parents=True)
        (directory / "sources").write_text(f"deb [signed-by={KEYRING}] {archive()} {suite} main\n")
        try:
            self._apt("update")
        except subprocess.CalledProcessError as error:
            raise NoNetwork(error.stderr.strip()) from error

    def download(self, package: str) -> Path:
        """Download a package and return its file."""
        self._apt("download", package)
        (deb,) = self._directory.glob(f"{package}_*.deb")
        return deb

    def _apt(self, *words: str) -> None:
        at = os.fspath(self._directory)
        options = {
            "Dir::Etc::SourceList": f"{at}/sources",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": f"{at}/lists",
            "Dir::Cache": f"{at}/cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
        }
        given = [f"--option={name}={value}" for name, value in options.items()]
        program = engine_program("apt-get")
        subprocess.run([program, "-qq", *given, *words], cwd=at, capture_output=True, text=True, check=True)
