"""Build the debs. Example: python packaging/debian.py DIRECTORY"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import textwrap
from email.utils import formatdate
from pathlib import Path

from bundle import bundled_versions
from packages import (
    ASSEMBLE,
    HOMEPAGE,
    INDEPENDENCE,
    MAINTAINER,
    PACKAGES,
    PARTS,
    Package,
    packaged_version,
    source_date,
)
from stage import stage_packages

from scripts import maintainer_scripts

ZSH_FUNCTIONS = "usr/share/zsh/vendor-completions"
INTERPRETER = "/usr/bin/python3"
# Debian's python calls this when it is upgraded to another minor version.
RUNTIME_HOOK = f"""#!/bin/sh
if [ "$1" = rtupdate ]; then
    /{ASSEMBLE} || true
fi
"""
# dpkg then calls the postinst of the package with ASSEMBLE at the end, also after parts were removed.
TRIGGERS = f"interest-noawait /{PARTS}\n"
BUNDLED = "# Debian has no field for wheels in a package; rpm's bundled(...) is what this one is like.\n"


def build_debs(directory: Path) -> list[Path]:
    """Build all debs into a directory. Two builds of one commit are identical."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        trees = stage_packages(Path(work), interpreter=INTERPRETER, zsh_functions=ZSH_FUNCTIONS)
        return [_build(package, trees[package.name], directory) for package in PACKAGES]


def _build(package: Package, tree: Path, directory: Path) -> Path:
    _write_changelog(package, tree)
    if package.assembles:
        _write(tree / f"usr/share/python3/runtime.d/{package.name}.rtupdate", RUNTIME_HOOK, mode=0o755)
        _write(tree / "DEBIAN/triggers", TRIGGERS)
    overrides = _overrides(package)
    if overrides:
        _write(tree / f"usr/share/lintian/overrides/{package.name}", overrides)
    _write(tree / "DEBIAN/control", format_control(package, tree))
    for name, text in maintainer_scripts(package).items():
        _write(tree / "DEBIAN" / name, text, mode=0o755)
    configuration = [f"/{path.relative_to(tree)}\n" for path in sorted((tree / "etc").rglob("*")) if path.is_file()]
    if configuration:
        _write(tree / "DEBIAN/conffiles", "".join(configuration))
    _write(tree / "DEBIAN/md5sums", _checksums(tree))
    deb = directory / f"{package.name}_{packaged_version()}_all.deb"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source_date())}
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, deb], env=environment, check=True)
    return deb


def _overrides(package: Package) -> str:
    """Return the overrides for lintian's irrelevant complaints, each with its reason."""
    written = Path(__file__).with_name("lintian") / package.name
    general = f"{BUNDLED}{package.name}: unknown-field Bundled\n" if package.bundled else ""
    return general + (written.read_text(encoding="utf-8") if written.exists() else "")


def format_control(package: Package, tree: Path) -> str:
    """Return the control file of a package, for apt and dpkg."""
    needed = [] if package.is_meta else ["python3 (>= 3.10)"]
    siblings = [f"{name} (= {packaged_version()})" for name in package.depends]
    fields = {
        "Package": package.name,
        "Version": packaged_version(),
        "Architecture": "all",
        "Section": "metapackages" if package.is_meta else "admin",
        "Priority": "optional",
        "Maintainer": MAINTAINER,
        "Installed-Size": str(sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024 + 1),
        # Never Pre-Depends: dpkg configures nothing before it has unpacked all files of one command.
        "Depends": ", ".join(needed + siblings),
        "Recommends": ", ".join(package.recommends),
        "Suggests": ", ".join(package.suggests),
        "Homepage": HOMEPAGE,
        "Bundled": ", ".join(f"{name} (= {version})" for name, version in bundled_versions(package)),
        "Description": package.summary,
    }
    lines = [f"{field}: {value}\n" for field, value in fields.items() if value]
    paragraphs = [
        textwrap.fill(" ".join(text.split()), 78, initial_indent=" ", subsequent_indent=" ")
        for text in (package.description, INDEPENDENCE)
    ]
    return "".join(lines) + "\n .\n".join(paragraphs) + "\n"


def _write_changelog(package: Package, tree: Path) -> None:
    """Write the changelog that Debian's policy requires of every package."""
    date = formatdate(source_date())
    changelog = f"amd-container-toolkit ({packaged_version()}) unstable; urgency=medium\n\n"
    changelog += f"  * CHANGELOG.md of the source says what changed.\n\n -- {MAINTAINER}  {date}\n"
    compressed = tree / f"usr/share/doc/{package.name}/changelog.gz"
    compressed.write_bytes(gzip.compress(changelog.encode(), mtime=0))


def _checksums(tree: Path) -> str:
    import hashlib

    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(tree)}\n"
        for path in files
        if path.relative_to(tree).parts[0] != "DEBIAN"
    )


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


if __name__ == "__main__":
    print("\n".join(map(str, build_debs(Path(sys.argv[1])))))
