"""Build the rpms: one set for each family of distributions.

Example: python packaging/redhat.py DIRECTORY, or for one family: python packaging/redhat.py DIRECTORY el9
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

from bundle import bundled_versions
from packages import HOMEPAGE, INDEPENDENCE, LIBRARY, MAINTAINER, PACKAGES, Package, packaged_version, source_date
from stage import stage_packages

from scripts import rpm_scriptlets

ZSH_FUNCTIONS = "usr/share/zsh/site-functions"
# Packages must not depend on the machine or the time of the build.
SETTINGS = {
    "_buildhost": "localhost",
    "_binary_payload": "w6.xzdio",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "__os_install_post": "%{nil}",
    "debug_package": "%{nil}",
}


# Directories removed with the last package that has them: the project's, and those of shells that may be missing.
OWNED = (
    f"/{LIBRARY}",
    "/usr/share/amd-container-toolkit",
    "/usr/share/doc/amd",
    "/usr/share/bash-completion",
    "/usr/share/fish",
    "/usr/share/zsh",
)


class Family(NamedTuple):
    """Distributions that share a set of rpms and a repository."""

    name: str
    dist: str
    python: str
    interpreter: str


FAMILIES = (
    # Fedora, and distributions that are not listed here.
    Family(name="fedora", dist="", python="python3 >= 3.10", interpreter="/usr/bin/python3"),
    Family(name="el10", dist=".el10", python="python3 >= 3.10", interpreter="/usr/bin/python3"),
    # Its python3 stays at 3.9, with 3.12 beside it.
    Family(name="el9", dist=".el9", python="python3.12", interpreter="/usr/bin/python3.12"),
)


def build_rpms(directory: Path, *names: str) -> list[Path]:
    """Build the rpms of these families, by default of all, into a directory. Builds of one commit are identical."""
    directory.mkdir(parents=True, exist_ok=True)
    return [rpm for family in FAMILIES if not names or family.name in names for rpm in _build_family(family, directory)]


def _build_family(family: Family, directory: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as work:
        trees = stage_packages(Path(work, "stage"), interpreter=family.interpreter, zsh_functions=ZSH_FUNCTIONS)
        return [_build(package, family, trees[package.name], Path(work), directory) for package in PACKAGES]


def _build(package: Package, family: Family, tree: Path, work: Path, directory: Path) -> Path:
    spec = work / f"{package.name}.spec"
    spec.write_text(format_spec(package, family, tree), encoding="utf-8")
    settings = {**SETTINGS, "_topdir": f"{work}/rpmbuild", "_rpmdir": f"{directory.resolve()}", "staged": f"{tree}"}
    words = [word for name, value in settings.items() for word in ("--define", f"{name} {value}")]
    naming = ["--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.noarch.rpm"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source_date()), "LC_ALL": "C.UTF-8"}
    subprocess.run(["rpmbuild", "--quiet", *words, *naming, "-bb", spec], env=environment, check=True)
    return directory / f"{package.name}-{packaged_version()}-1{family.dist}.noarch.rpm"


def format_spec(package: Package, family: Family, tree: Path) -> str:
    """Return the spec file of a package whose files are already staged."""
    siblings = [f"{name} = {packaged_version()}-1{family.dist}" for name in package.depends]
    own = [] if package.is_meta else [family.python]
    fields = [
        ("Name", package.name),
        ("Version", packaged_version()),
        ("Release", f"1{family.dist}"),
        ("Summary", package.summary[0].upper() + package.summary[1:]),
        ("License", package.licence),
        *([("URL", HOMEPAGE)] if HOMEPAGE else []),
        ("BuildArch", "noarch"),
        # Dependencies are listed here. Bundled modules are for these packages only.
        ("AutoReqProv", "no"),
        *(("Requires", needed) for needed in own + siblings),
        *(("Provides", f"bundled(python3dist({name})) = {version}") for name, version in bundled_versions(package)),
        *(("Recommends", name) for name in package.recommends),
        *(("Suggests", name) for name in package.suggests),
        *(("Conflicts", name) for name in package.rpm_conflicts),
    ]
    header = "".join(f"{name}: {value}\n" for name, value in fields)
    description = "\n\n".join(textwrap.fill(" ".join(text.split()), 78) for text in (package.description, INDEPENDENCE))
    scriptlets = "".join(f"%{name}\n{text}\n" for name, text in rpm_scriptlets(package, family.interpreter).items())
    files = "\n".join(_list_files(tree))
    install = "%install\ncp -a %{staged}/. %{buildroot}/\n"
    day = time.strftime("%a %b %d %Y", time.gmtime(source_date()))
    release = f"{packaged_version()}-1{family.dist}"
    changelog = f"%changelog\n* {day} {MAINTAINER} - {release}\n- CHANGELOG.md of the source says what changed.\n"
    return f"{header}\n%description\n{description}\n\n{install}\n{scriptlets}%files\n{files}\n\n{changelog}"


def _list_files(tree: Path) -> list[str]:
    """Return the lines of %files, with directories of this project only."""
    lines = []
    for path in sorted(tree.rglob("*")):
        name = f"/{path.relative_to(tree)}"
        if path.is_dir() and not path.is_symlink():
            lines += [f'%dir "{name}"'] if name.startswith(OWNED) else []
        else:
            kind = (
                "%config(noreplace) "
                if name.startswith("/etc/")
                else "%doc "
                if "/doc/" in name or "/man/" in name
                else ""
            )
            lines.append(f'{kind}"{name}"')
    return lines


if __name__ == "__main__":
    print("\n".join(map(str, build_rpms(Path(sys.argv[1]), *sys.argv[2:]))))
