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
from packages import COMPILE, INDEPENDENCE, LIBRARY, MODULES, PACKAGES, ROOT, Package, read_version, source_date
from wheels import build_wheels

HERE = Path(__file__).resolve().parent
# -I: nothing of the caller's environment or directory is imported; -S: nothing of the system's either;
# -B: nothing is written beside the modules, which are compiled when they are installed.
PROGRAM = """#!/usr/lib/amd-container-toolkit/python3 -ISB
import sys

sys.path.insert(0, "/usr/lib/amd-container-toolkit/python")

from {module} import main

main()
"""
COPYRIGHT = f"""This package belongs to the AMD Container Toolkit, which is licensed under the Apache License,
Version 2.0; /usr/share/common-licenses/Apache-2.0 has its text on Debian systems, and
https://www.apache.org/licenses/LICENSE-2.0 on all others.

Copyright 2026 the authors of the AMD Container Toolkit

{INDEPENDENCE}
"""
COMPLETIONS = {"bash": "usr/share/bash-completion/completions", "fish": "usr/share/fish/vendor_completions.d"}


def stage_packages(work: Path, *, interpreter: str, zsh_functions: str) -> dict[str, Path]:
    """Stage all packages; return the directory of each.

    `interpreter` is the absolute path of the python they run with, `zsh_functions` where the system's zsh looks.
    """
    shutil.rmtree(work, ignore_errors=True)
    wheels = build_wheels(work / "wheels", "wheel") | bundle.download(work / "bundle")
    trees = {package.name: work / "tree" / package.name for package in PACKAGES}
    for package in PACKAGES:
        _stage_modules(package, wheels, trees[package.name])
        _stage_files(package, trees[package.name])
    (trees["amdgpu-discovery"] / LIBRARY / "python3").symlink_to(os.path.relpath(interpreter, f"/{LIBRARY}"))
    _stage_documents(trees, work, zsh_functions)
    for tree in trees.values():
        _settle(tree)
    return trees


def _stage_modules(package: Package, wheels: dict[str, Path], tree: Path) -> None:
    """Unpack our wheel and those it brings; their licences go into the copyright file."""
    modules = tree / MODULES
    own = [] if package.is_meta else [package.name]
    for name in [*own, *(name.replace(".", "-") for name in package.bundled)]:
        bundle.unpack(wheels[name], modules)
    taken = {info.name: _take_licences(info) for info in sorted(modules.glob("*.dist-info"))}
    # Our own is in every system, or at the address that COPYRIGHT names.
    own = package.name.replace("-", "_")
    texts = [COPYRIGHT, *(text for name, found in taken.items() if not name.startswith(own) for text in found)]
    _write(tree / f"usr/share/doc/{package.name}/copyright", "\n".join(texts))


def _take_licences(info: Path) -> list[str]:
    """Return what the licence files of a distribution say, and remove them."""
    name = info.name.removesuffix(".dist-info").replace("-", " ")
    files = sorted(
        path for path in info.rglob("*") if path.name.upper().startswith(("LICEN", "COPYING")) and path.is_file()
    )
    texts = [f"-- {name}, of which a copy is in /{MODULES}:\n\n{file.read_text(encoding='utf-8')}" for file in files]
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
        program = tree / "usr/bin" / name
        launcher = ROOT / "packages" / name / "src/scripts" / name
        _write(program, PROGRAM.format(module=module) if module else launcher.read_text(encoding="utf-8"))


def _stage_documents(trees: dict[str, Path], work: Path, zsh_functions: str) -> None:
    """Add manual pages and completions, which are made from the staged modules."""
    date = time.strftime("%Y-%m-%d", time.gmtime(source_date()))
    library = work / "library"
    for tree in trees.values():
        if (tree / MODULES).exists():
            shutil.copytree(tree / MODULES, library, dirs_exist_ok=True)
    words = [f"{path}" for path in (HERE / "man.py", library, work / "documents", date, read_version())]
    subprocess.run([sys.executable, "-I", "-S", "-B", *words], check=True)
    for package in PACKAGES:
        for name, _ in package.programs:
            _stage_documents_of(name, trees[package.name], work / "documents", zsh_functions, date)


def _stage_documents_of(name: str, tree: Path, documents: Path, zsh_functions: str, date: str) -> None:
    page = documents / "man" / f"{name}.1"
    text = (page if page.exists() else HERE / "files" / page.name).read_text(encoding="utf-8")
    filled = text.replace("@DATE@", date).replace("@VERSION@", read_version())
    manual = tree / "usr/share/man/man1" / f"{page.name}.gz"
    manual.parent.mkdir(parents=True, exist_ok=True)
    manual.write_bytes(gzip.compress(filled.encode(), mtime=0))
    for shell, directory in {**COMPLETIONS, "zsh": zsh_functions}.items():
        for script in (documents / shell).glob(f"*{name}*"):
            _write(tree / directory / script.name, script.read_text(encoding="utf-8"))


def _settle(tree: Path) -> None:
    """Give every file the mode and time that do not depend on who builds it and when."""
    for path in sorted([tree, *tree.rglob("*")]):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or _is_program(path, tree) else 0o644)
        os.utime(path, (source_date(), source_date()), follow_symlinks=False)


def _is_program(path: Path, tree: Path) -> bool:
    return path.parent == tree / "usr/bin" or path == tree / COMPILE


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
