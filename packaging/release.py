"""Build everything that a release publishes, check it, and sign it. Example: python packaging/release.py dist KEY

KEY is the id of a secret key of gpg. Each rpm is signed; SHA256SUMS is signed for all other files. A web server serves
`repository/`; a third word is its address, by default REPOSITORY of packages.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import bundle
from debian import build_debs
from packages import REPOSITORY, ROOT, read_version
from provenance import write_provenance
from redhat import build_rpms
from repositories import build_repositories
from sbom import write_sbom
from wheels import build_wheels

SBOM = "amd-container-toolkit.cdx.json"
PROVENANCE = "amd-container-toolkit.intoto.json"
# Programs that make, check and sign packages, with the Debian packages that contain them.
PROGRAMS = {
    "dpkg-deb": "dpkg",
    "lintian": "lintian",
    "apt-ftparchive": "apt-utils",
    "rpmbuild": "rpm",
    "rpmsign": "rpm",
    "rpmlint": "rpmlint",
    "createrepo_c": "createrepo-c",
    "gpg": "gpg",
}


def main(directory: Path, key: str, address: str = REPOSITORY) -> None:
    """Make a release of this checkout, or exit with the reason why that is not possible."""
    _refuse_missing_programs()
    _refuse_what_is_not_committed()
    shutil.rmtree(directory, ignore_errors=True)
    _build(directory)
    with tempfile.TemporaryDirectory() as again:
        _build(Path(again))
        _refuse_other_bytes(directory, Path(again))
    debs, rpms = (sorted(map(str, directory.glob(f"*.{kind}"))) for kind in ("deb", "rpm"))
    subprocess.run(["lintian", "--fail-on=warning", *debs], check=True)
    subprocess.run(["rpmlint", "--config", ROOT / "packaging/rpmlint.toml", *rpms], check=True)
    sign_rpms(rpms, key)
    write_provenance(directory / PROVENANCE, sorted(directory.glob("*.*")))
    sums = directory / "SHA256SUMS"
    sums.write_text("".join(f"{digest}  {name}\n" for name, digest in _digests(directory).items()), encoding="utf-8")
    subprocess.run(["gpg", "--batch", "--local-user", key, "--armor", "--detach-sign", sums], check=True)
    build_repositories(directory / "repository", directory, key=key, address=address)
    print(f"{read_version()} is in {directory}")


def sign_rpms(rpms: list[str], key: str) -> None:
    """Add signatures to rpms."""
    # Debian's rpm looks for gpg under another name.
    signer = ["--define", f"_gpg_name {key}", "--define", f"__gpg {shutil.which('gpg')}"]
    subprocess.run(["rpmsign", *signer, "--addsign", *rpms], check=True)


def _build(directory: Path) -> None:
    wheels = build_wheels(directory, "sdist", "wheel")
    with tempfile.TemporaryDirectory() as bundled:
        write_sbom(directory / SBOM, wheels, bundle.download(Path(bundled)))
    build_debs(directory)
    build_rpms(directory)


def _refuse_missing_programs() -> None:
    missing = {program: package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if missing:
        sys.exit(f"missing: {', '.join(missing)}; install with 'apt install {' '.join(sorted(set(missing.values())))}'")


def _refuse_what_is_not_committed() -> None:
    answer = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], capture_output=True, text=True, check=True)
    if answer.stdout:
        sys.exit(f"not everything is committed:\n{answer.stdout}")


def _refuse_other_bytes(directory: Path, again: Path) -> None:
    first, second = _digests(directory), _digests(again)
    if first != second:
        sys.exit(f"two builds differ in {', '.join(name for name in first if first[name] != second.get(name))}")


def _digests(directory: Path) -> dict[str, str]:
    return {path.name: bundle.digest_of(path) for path in sorted(directory.glob("*.*"))}


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *sys.argv[2:])
