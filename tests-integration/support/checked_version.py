"""Make versions of our debs and rpms in which all programs and modules check that their versions are equal."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

LIBRARY = "usr/lib/amd-container-toolkit"
# Appended to a module, because imports from __future__ must come first.
CHECK = """
if __import__("sys").__dict__.setdefault("toolkit_build", "{build}") != "{build}":
    __import__("posix").write(2, b"MIXED: a module of {build}: " + __name__.encode() + b"\\n")
    __import__("posix")._exit(97)
"""
# dpkg runs this in place of the assembler for a version in the old layout.
COMPILE = f"/{LIBRARY}/python3 -ISBm compileall -q /{LIBRARY}/python >/dev/null 2>&1 || true"
CLEAN = f"find /{LIBRARY}/python -name __pycache__ -prune -exec rm -rf {{}} + 2>/dev/null || true"


def checked_debs(debs: Iterable[Path], directory: Path, *, version: str, as_before: bool = False) -> list[Path]:
    """Return these packages as another version whose parts check each other.

    With `as_before`, their modules are in one directory from which programs import, like in packages that dpkg alone
    unpacked.
    """
    directory.mkdir(parents=True)
    return [_checked_deb(deb, directory, version, _lay_out_as_before if as_before else _count) for deb in debs]


def let_check(modules: Iterable[Path], build: str) -> None:
    """Make each of these modules check that the program has this build, or set the build if it has none."""
    for module in modules:
        with module.open("a", encoding="utf-8") as file:
            file.write(CHECK.format(build=build))


def _let_check(tree: Path, build: str) -> None:
    let_check(tree.glob(f"{LIBRARY}/parts/*/python/**/*.py"), build)
    for launcher in tree.glob(f"{LIBRARY}/parts/*/bin/*"):
        text = launcher.read_text(encoding="utf-8")
        says = f'import sys; sys.toolkit_build = "{build}"'
        is_shell = text.startswith("#!")
        launcher.write_text(text.replace("serve='", f"serve='{says}\n") if is_shell else f"{says}\n{text}")


def _checked_deb(deb: Path, directory: Path, version: str, lay_out: Callable[[Path, str], None]) -> Path:
    tree = directory / "tree"
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
    control = tree / "DEBIAN/control"
    former = deb.name.split("_")[1]
    control.write_text(control.read_text(encoding="utf-8").replace(former, version), encoding="utf-8")
    _let_check(tree, version)
    lay_out(tree, version)
    made = directory / deb.name.replace(former, version)
    words = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", f"{tree}", f"{made}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return made


def _count(tree: Path, build: str) -> None:
    """Update the file about a part that the assembler reads."""
    for listed in tree.glob(f"{LIBRARY}/parts/*/BUILD"):
        part = listed.parent
        names = [line.partition("  ")[2] for line in listed.read_text(encoding="utf-8").splitlines()[1:]]
        sums = [f"{hashlib.sha256((part / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        listed.write_text("".join([f"# {build}\n", *sums]), encoding="utf-8")


def _lay_out_as_before(tree: Path, build: str) -> None:
    """Move modules and programs to their old places, and make the scripts compile the modules there."""
    shutil.rmtree(tree / LIBRARY / "python", ignore_errors=True)
    for part in tree.glob(f"{LIBRARY}/parts/*"):
        shutil.copytree(part / "python", tree / LIBRARY / "python", dirs_exist_ok=True)
        for program in part.glob("bin/*"):
            text = program.read_text(encoding="utf-8")
            text = text if text.startswith("#!") else f"#!/{LIBRARY}/python3 -ISB\n{text}"
            installed = tree / "usr/bin" / program.name
            installed.unlink()
            written = text.replace("@LIBRARY@", f"/{LIBRARY}/python").replace("@PYTHON@", f"/{LIBRARY}/python3")
            installed.write_text(written, encoding="utf-8")
            installed.chmod(0o755)
    shutil.rmtree(tree / LIBRARY / "parts", ignore_errors=True)
    _edit(tree / "DEBIAN/triggers", f"/{LIBRARY}/parts", f"/{LIBRARY}/python")
    _edit(tree / "DEBIAN/postinst", f"/{LIBRARY}/assemble", COMPILE)
    prerm = tree / "DEBIAN/prerm"
    prerm.write_text(f"{prerm.read_text() if prerm.exists() else '#!/bin/sh'}\n{CLEAN}\n", encoding="utf-8")
    prerm.chmod(0o755)


def _edit(path: Path, old: str, new: str) -> None:
    if path.exists():
        path.write_text(re.sub(f"^(.*?){re.escape(old)}$", rf"\g<1>{new}", path.read_text(), flags=re.MULTILINE))
