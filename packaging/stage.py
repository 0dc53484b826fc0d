"""Lay out the files of every package below a directory, as they will be below / of a system."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import bundle
from man_settings import NAME as SETTINGS_PAGE
from man_settings import format_settings
from packages import (
    ASSEMBLE,
    CURRENT,
    INDEPENDENCE,
    LIBRARY,
    PACKAGES,
    PARTS,
    ROOT,
    Package,
    build_id,
    read_version,
    source_date,
)
from wheels import build_wheels

HERE = Path(__file__).resolve().parent
# files/assemble makes a program from this.
PROGRAM = """import sys

sys.path.insert(0, "@LIBRARY@")

from amdgpu_discovery.command_line.module_file import use_module_file

use_module_file("@LIBRARY@")

from {module} import main

main()
"""
COPYRIGHT = f"""This package belongs to a container toolkit for AMD GPUs, which is licensed under the Apache License,
Version 2.0; /usr/share/common-licenses/Apache-2.0 has its text on Debian systems, and
https://www.apache.org/licenses/LICENSE-2.0 on all others.

Copyright 2026 the authors of the container toolkit for AMD GPUs

{INDEPENDENCE}
"""
# amd_ctk.pages reads this directory.
DOCUMENTATION = "usr/share/doc/amd-ctk/docs"
COMPLETIONS = {"bash": "usr/share/bash-completion/completions", "fish": "usr/share/fish/vendor_completions.d"}


def stage_packages(work: Path, *, interpreter: str, zsh_functions: str) -> dict[str, Path]:
    """Stage all packages; return the directory of each.

    `interpreter` is the absolute path of their python, `zsh_functions` the directory for functions of the system's zsh.
    """
    shutil.rmtree(work, ignore_errors=True)
    wheels = build_wheels(work / "wheels", "wheel") | bundle.download(work / "bundle")
    trees = {package.name: work / "tree" / package.name for package in PACKAGES}
    for package in PACKAGES:
        _stage_modules(package, wheels, trees[package.name])
        _stage_files(package, trees[package.name])
        if not package.is_meta:
            _write_build(trees[package.name] / PARTS / package.name)
    (trees["amdgpu-discovery"] / LIBRARY / "python3").symlink_to(os.path.relpath(interpreter, f"/{LIBRARY}"))
    _stage_documents(trees, work, zsh_functions)
    _stage_pages(trees["amd-ctk"])
    for tree in trees.values():
        _settle(tree)
    return trees


def _stage_modules(package: Package, wheels: dict[str, Path], tree: Path) -> None:
    """Unpack the package's wheel and its bundled wheels. Their licences go into the copyright file."""
    modules = modules_of(package, tree)
    own = [] if package.is_meta else [package.name]
    for name in [*own, *(name.replace(".", "-") for name in package.bundled)]:
        bundle.unpack(wheels[name], modules)
    taken = {info.name: _take_licences(info) for info in sorted(modules.glob("*.dist-info"))}
    # The project's own licence is in every system, or at the address in COPYRIGHT.
    own = package.name.replace("-", "_")
    texts = [COPYRIGHT, *(text for name, found in taken.items() if not name.startswith(own) for text in found)]
    _write(tree / f"usr/share/doc/{package.name}/copyright", "\n".join(texts))


def modules_of(package: Package, tree: Path) -> Path:
    """Return the directory of a package's modules."""
    return tree / PARTS / package.name / "python"


def _write_build(part: Path) -> None:
    """Write the file that files/assemble checks: the build id of a part, and the sums of its files."""
    files = sorted(path for path in part.rglob("*") if path.is_file())
    sums = [f"{bundle.digest_of(path)}  {path.relative_to(part)}\n" for path in files]
    _write(part / "BUILD", "".join([f"# {build_id()}\n", *sums]))


def _take_licences(info: Path) -> list[str]:
    """Return the texts of a distribution's licence files, and remove the files."""
    name = info.name.removesuffix(".dist-info").replace("-", " ")
    files = sorted(
        path for path in info.rglob("*") if path.name.upper().startswith(("LICEN", "COPYING")) and path.is_file()
    )
    texts = [f"-- {name}, of which a copy is in /{PARTS}:\n\n{file.read_text(encoding='utf-8')}" for file in files]
    for file in files:
        file.unlink()
    shutil.rmtree(info / "licenses", ignore_errors=True)
    return texts


def _stage_files(package: Package, tree: Path) -> None:
    for source, destination in package.files:
        if (HERE / source).is_dir():
            shutil.copytree(HERE / source, tree / destination)
        elif (HERE / source).exists():
            _write(tree / destination, (HERE / source).read_text(encoding="utf-8"))
    for name, module in package.programs:
        launcher = ROOT / "packages" / name / "src/scripts" / name
        text = PROGRAM.format(module=module) if module else launcher.read_text(encoding="utf-8")
        _write(tree / PARTS / package.name / "bin" / name, text)
        (tree / "usr/bin").mkdir(parents=True, exist_ok=True)
        (tree / "usr/bin" / name).symlink_to(os.path.relpath(f"/{CURRENT}/bin/{name}", "/usr/bin"))


def _stage_documents(trees: dict[str, Path], work: Path, zsh_functions: str) -> None:
    """Add manual pages and completions, which are made from the staged modules."""
    date = time.strftime("%Y-%m-%d", time.gmtime(source_date()))
    library = work / "library"
    for package in PACKAGES:
        if not package.is_meta:
            shutil.copytree(modules_of(package, trees[package.name]), library, dirs_exist_ok=True)
    words = [f"{path}" for path in (HERE / "man.py", library, work / "documents", date, read_version())]
    subprocess.run([sys.executable, "-I", "-S", "-B", *words], check=True)
    settings = (ROOT / "docs/reference/config.md").read_text(encoding="utf-8")
    page = format_settings(settings, date=date, version=read_version())
    _write_manual(trees["amd-container-runtime"], f"{SETTINGS_PAGE}.5", page)
    for package in PACKAGES:
        for name, _ in package.programs:
            _stage_documents_of(name, trees[package.name], work / "documents", zsh_functions, date)


def _stage_pages(tree: Path) -> None:
    """Add the documentation pages. Messages of amd-ctk refer to their paths here."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        _write(tree / DOCUMENTATION / page.relative_to(ROOT / "docs"), page.read_text(encoding="utf-8"))


def _stage_documents_of(name: str, tree: Path, documents: Path, zsh_functions: str, date: str) -> None:
    page = documents / "man" / f"{name}.1"
    if page.exists():
        _write_manual(tree, page.name, page.read_text(encoding="utf-8"))
    else:
        written = HERE / "files" / f"{name}.8"
        text = written.read_text(encoding="utf-8")
        _write_manual(tree, written.name, text.replace("@DATE@", date).replace("@VERSION@", read_version()))
    for shell, directory in {**COMPLETIONS, "zsh": zsh_functions}.items():
        for script in (documents / shell).glob(f"*{name}*"):
            _write(tree / directory / script.name, script.read_text(encoding="utf-8"))


def _write_manual(tree: Path, name: str, text: str) -> None:
    manual = tree / "usr/share/man" / f"man{name[-1]}" / f"{name}.gz"
    manual.parent.mkdir(parents=True, exist_ok=True)
    manual.write_bytes(gzip.compress(text.encode(), mtime=0))


def _settle(tree: Path) -> None:
    """Give every file a mode and a time that do not depend on the build."""
    for path in sorted([tree, *tree.rglob("*")]):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or _is_program(path, tree) else 0o644)
        os.utime(path, (source_date(), source_date()), follow_symlinks=False)


def _is_program(path: Path, tree: Path) -> bool:
    return path == tree / ASSEMBLE or (path.parent.name == "bin" and path.read_bytes().startswith(b"#!"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
