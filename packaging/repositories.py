"""Make repositories for apt and dnf that any web server can serve unchanged.

`apt/` has one suite, `stable`, for every Debian and Ubuntu. `rpm/` has one repository for each family of rpms. Beside
them are the public key and the files that configure apt and dnf for the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from packages import source_date
from redhat import FAMILIES

NAME = "amd-container-toolkit"
SUITE = "stable"
# Packages fit all architectures; users of amdgpu have these.
ARCHITECTURES = "amd64 arm64"
# Fields of Release. apt shows origin and label, and pinning uses them.
RELEASE = {
    "Origin": "AMD Container Toolkit",
    "Label": "AMD Container Toolkit",
    "Suite": SUITE,
    "Codename": SUITE,
    "Architectures": ARCHITECTURES,
    "Components": "main",
}
# Seconds for which apt trusts a server's repository: an attacker who serves an old one keeps known vulnerabilities
# open. `resign.py` renews it each week. A local directory does not expire, because nobody would renew it.
VALID = 30 * 24 * 3600
# apt uses an index only if Release also lists it uncompressed.
LAYOUT = """
Dir::ArchiveDir "{directory}";
Default::Packages::Compress ". xz";
TreeDefault::Directory "pool";
Tree "dists/{suite}" {{ Sections "main"; Architectures "{architectures}"; }};
"""
SOURCES = """Types: deb
URIs: {address}/apt
Suites: {suite}
Components: main
Signed-By: /etc/apt/keyrings/{name}.asc
"""
REPO = """[{name}]
name=AMD Container Toolkit
baseurl={address}/rpm/{family}
enabled=1
gpgcheck=1
repo_gpgcheck=1
gpgkey={address}/{name}.asc
"""


def build_repositories(directory: Path, packages: Path, *, key: str, address: str) -> None:
    """Make everything below `directory` from the debs and signed rpms in `packages`.

    `key` is the id of a secret key of gpg; `address` is the URL of the directory.
    """
    directory.mkdir(parents=True)
    _gpg(key, "--armor", "--export", "--output", directory / f"{NAME}.asc", key)
    _build_apt(directory / "apt", sorted(packages.glob("*.deb")))
    sign_apt(directory / "apt", key, expires=not address.startswith("file:"))
    _write(directory / f"{NAME}.sources", SOURCES.format(address=address, suite=SUITE, name=NAME))
    for family in FAMILIES:
        _build_dnf(directory / "rpm" / family.name, sorted(packages.glob(f"*-1{family.dist}.noarch.rpm")), key)
        repo = REPO.format(name=NAME, address=address, family=family.name)
        _write(directory / "rpm" / f"{NAME}-{family.name}.repo", repo)


def sign_apt(directory: Path, key: str, *, expires: bool) -> None:
    """Date and sign the indexes of an apt repository, replacing earlier signatures."""
    dists = directory / "dists" / SUITE
    for name in ("Release", "InRelease", "Release.gpg"):
        (dists / name).unlink(missing_ok=True)
    _write(dists / "Release", _run("apt-ftparchive", *_release_options(expires=expires), "release", dists))
    _gpg(key, "--clearsign", "--output", dists / "InRelease", dists / "Release")
    _gpg(key, "--armor", "--detach-sign", "--output", dists / "Release.gpg", dists / "Release")


def _build_apt(directory: Path, debs: list[Path]) -> None:
    dists = directory / "dists" / SUITE
    for architecture in ARCHITECTURES.split():
        (dists / "main" / f"binary-{architecture}").mkdir(parents=True)
    _copy(debs, directory / "pool")
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as layout:
        layout.write(LAYOUT.format(directory=directory, suite=SUITE, architectures=ARCHITECTURES))
        layout.flush()
        _run("apt-ftparchive", "--quiet=2", "generate", layout.name)


def _release_options(*, expires: bool) -> list[str]:
    # With names by hash, clients can fetch an index while the next release is copied over it.
    until = {"ValidTime": f"{VALID}"} if expires else {}
    options = {"DoByHash": "true", **{f"Release::{field}": value for field, value in (RELEASE | until).items()}}
    return [word for name, value in options.items() for word in ("-o", f"APT::FTPArchive::{name}={value}")]


def _build_dnf(directory: Path, rpms: list[Path], key: str) -> None:
    _copy(rpms, directory)
    _run("createrepo_c", "--quiet", "--revision", source_date(), directory)
    _gpg(key, "--armor", "--detach-sign", directory / "repodata/repomd.xml")


def _copy(packages: list[Path], directory: Path) -> None:
    directory.mkdir(parents=True)
    for package in packages:
        shutil.copy2(package, directory)


def _gpg(key: str, *words: str | Path) -> None:
    _run("gpg", "--batch", "--yes", "--local-user", key, *words)


def _run(*words: str | Path | int) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run([*map(str, words)], env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
