"""A signed apt repository in a directory, as a mirror would serve it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

RELEASE = ("-o", "APT::FTPArchive::Release::Origin=test", "-o", "APT::FTPArchive::Release::Suite=test")


class AptRepository:
    """A flat repository. `source_line` is the line of a sources.list for it at `path`."""

    def __init__(self, directory: Path, keys: Path) -> None:
        self.directory = directory
        self._gpg = ["gpg", "--batch", "--yes", f"--homedir={keys}"]
        if not keys.exists():
            keys.mkdir(mode=0o700)
            self._run([*self._gpg, "--passphrase=", "--quick-generate-key", "test@example.org", "ed25519", "sign"])
        directory.mkdir(parents=True)

    def add(self, debs: list[Path]) -> None:
        """Add packages to the repository."""
        for deb in debs:
            shutil.copy(deb, self.directory)
        self._write("Packages", self._run(["apt-ftparchive", "packages", "."]))
        (self.directory / "Release").unlink(missing_ok=True)
        self._write("Release", self._run(["apt-ftparchive", *RELEASE, "release", "."]))
        self._run([*self._gpg, "--clearsign", "--output", "InRelease", "Release"])
        self._run([*self._gpg, "--export", "--output", "key.gpg"])

    def source_line(self, path: str) -> str:
        """Return the line of a sources.list, if the directory is mounted at `path`."""
        return f"deb [signed-by={path}/key.gpg] file:{path} ./\n"

    def _write(self, name: str, content: bytes) -> None:
        (self.directory / name).write_bytes(content)

    def _run(self, words: Sequence[str | Path]) -> bytes:
        environment = {**os.environ, "LC_ALL": "C"}
        answer = subprocess.run(words, cwd=self._directory_or_root(), env=environment, capture_output=True, check=False)
        assert answer.returncode == 0, f"{words}: {answer.stderr.decode()}"
        return answer.stdout

    def _directory_or_root(self) -> Path:
        return self.directory if self.directory.exists() else Path("/")


def keep(_: Path) -> None:
    """Leave the files of a package unchanged."""


def next_version(
    debs: list[Path], directory: Path, *, old: str, new: str, edit: Callable[[Path], None] = keep
) -> list[Path]:
    """Return the same packages as another version; `edit` changes the files of each."""
    directory.mkdir()
    later = []
    for deb in debs:
        tree = directory / "tree"
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        control = tree / "DEBIAN/control"
        control.write_text(control.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        edit(tree)
        later.append(directory / deb.name.replace(old, new))
        words: list[str | Path] = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, later[-1]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)
    return later
