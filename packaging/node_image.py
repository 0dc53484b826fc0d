"""Build the image that installs the toolkit onto a host. Example: python packaging/node_image.py DIRECTORY

The image contains no distribution, only one directory with the toolkit, Debian's python and its C library. So it also
runs on hosts that lack both. `docker load`, `podman load` and `ctr image import` read the file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from packages import ASSEMBLE, HOOKS, INDEPENDENCE, LIBRARY, PACKAGES, PARTS, read_version, source_date
from stage import stage_packages

NAME = "amd-container-toolkit"
PREFIX = f"opt/{NAME}"
HERE = Path(__file__).resolve().parent
PYTHON = Path("/usr/bin/python3").resolve()
# The launcher uses this python, as in packages. The C library is beside it.
LINK = f"{PREFIX}/lib/{NAME}/python3"
C_LIBRARY = f"{PREFIX}/lib/{NAME}/lib"
# Parts of the standard library that the toolkit never imports.
UNUSED = ("test", "idlelib", "tkinter", "lib2to3", "ensurepip", "pydoc_data", "turtledemo", "distutils", "venv")
# Extension modules that need any other library are left out: the toolkit needs no OpenSSL, curses or SQLite.
LIBRARIES = re.compile(r"lib(c|m|z|bz2|lzma|ffi|expat|uuid|zstd)\.so\.|ld-linux")
# Loaded by name if a layer of an image is compressed with it.
ZSTD = "libzstd.so.1"
LINE_OF_LDD = re.compile(r"^\s*(?:(?P<name>\S+) => )?(?P<path>/\S+) \(", re.MULTILINE)
ENTRYPOINT = [f"/{PREFIX}/bin/python3", "-ISB", f"/{PREFIX}/lib/{NAME}/node.py"]


def build_image(directory: Path) -> Path:
    """Build the image into a directory. Two builds of one commit on one system are identical."""
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / f"{NAME}-{read_version()}.oci.tar"
    with tempfile.TemporaryDirectory() as work:
        root = Path(work, "root")
        stage_root(Path(work), root)
        image.write_bytes(format_image(format_layer(root)))
    return image


def stage_root(work: Path, root: Path) -> None:
    """Lay out the files of the image below `root`."""
    trees = stage_packages(work / "packages", interpreter=f"/{PREFIX}/bin/python3", zsh_functions="unused")
    for package in PACKAGES:
        _take_package(trees[package.name], root)
    _take_python(root)
    shutil.copyfile(HERE / "files/node.py", root / PREFIX / "lib" / NAME / "node.py")
    for mount in ("host", "proc", "sys", "dev"):
        (root / mount).mkdir()
    # Hashes instead of times keep compiled files valid when they are copied.
    options = ("-q", "-s", root, "--invalidation-mode", "unchecked-hash")
    subprocess.run([PYTHON, "-ISm", "compileall", *options, root / PREFIX / "lib" / PYTHON.name], check=True)
    _assemble(root)


def _assemble(root: Path) -> None:
    """Assemble the parts as packages do, but only once, because an image is replaced as a whole."""
    for name in (ASSEMBLE, f"{HOOKS}/hook.py", f"{HOOKS}/release.sh"):
        program = root / _in_prefix(name)
        program.write_text(program.read_text(encoding="utf-8").replace(f"/{LIBRARY}", f"/{_in_prefix(LIBRARY)}"))
    subprocess.run([PYTHON, "-ISB", root / _in_prefix(ASSEMBLE), "--root", root], check=True)
    (root / _in_prefix(ASSEMBLE)).unlink()
    shutil.rmtree(root / _in_prefix(PARTS))


def _in_prefix(path: str) -> str:
    return f"{PREFIX}/{path.removeprefix('usr/')}"


def _take_package(tree: Path, root: Path) -> None:
    for source, destination in (
        (LIBRARY, f"{PREFIX}/lib/{NAME}"),
        ("usr/bin", f"{PREFIX}/bin"),
        ("usr/share/doc", f"{PREFIX}/share/doc"),
    ):
        if (tree / source).exists():
            shutil.copytree(tree / source, root / destination, symlinks=True, dirs_exist_ok=True)


def _take_python(root: Path) -> None:
    """Copy Debian's python and its libraries, and make it load the C library from beside itself."""
    program = root / PREFIX / "bin" / PYTHON.name
    shutil.copyfile(PYTHON, program)
    program.chmod(0o755)
    standard = Path("/usr/lib", PYTHON.name)
    ignored = shutil.ignore_patterns(*UNUSED, "__pycache__", "config-*", "dist-packages", "sitecustomize.py", "*.so")
    shutil.copytree(standard, root / PREFIX / "lib" / PYTHON.name, ignore=ignored)
    libraries = _libraries_of(PYTHON)
    for module in sorted(standard.glob("lib-dynload/*.so")):
        needed = _libraries_of(module)
        if all(LIBRARIES.match(name) for name in needed):
            shutil.copyfile(module, root / PREFIX / "lib" / PYTHON.name / "lib-dynload" / module.name)
            libraries |= needed
    _take_libraries(root, libraries | _libraries_of(libraries["libc.so.6"]) | {ZSTD: _library(ZSTD)})
    loader = next(name for name in sorted(os.listdir(root / C_LIBRARY)) if name.startswith("ld-linux"))
    words = ["--set-interpreter", f"/{C_LIBRARY}/{loader}", "--force-rpath", "--set-rpath", f"/{C_LIBRARY}"]
    subprocess.run(["patchelf", *words, program], check=True)
    (program.parent / "python3").symlink_to(PYTHON.name)
    (root / LINK).unlink(missing_ok=True)
    (root / LINK).symlink_to(f"../../bin/{PYTHON.name}")


def _take_libraries(root: Path, libraries: dict[str, Path]) -> None:
    (root / C_LIBRARY).mkdir(parents=True)
    for name, path in sorted(libraries.items()):
        shutil.copyfile(path.resolve(), root / C_LIBRARY / name)
        (root / C_LIBRARY / name).chmod(0o755)
    for path in (PYTHON, *libraries.values()):
        package = _package_of(path)
        words = Path("/usr/share/doc", package, "copyright")
        target = root / PREFIX / "share/doc" / package / "copyright"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(words, target)


def _libraries_of(program: Path) -> dict[str, Path]:
    """Return the libraries that a program or a library needs, by the names under which it loads them."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {found["name"] or Path(found["path"]).name: Path(found["path"]) for found in LINE_OF_LDD.finditer(answer)}


def _library(name: str) -> Path:
    return next(path for path in sorted(Path("/usr/lib").glob(f"*-linux-gnu/{name}")))


def _package_of(path: Path) -> str:
    """Return the Debian package of a file. dpkg lists some files only below /lib, which is a link."""
    for candidate in (path.resolve(), Path("/", path.resolve().relative_to("/usr"))):
        answer = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return answer.stdout.partition(":")[0]
    raise SystemExit(f"no package of Debian has {path}")


def format_layer(root: Path) -> bytes:
    """Return a directory as a layer whose files belong to root and have the date of the commit."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, arcname=path.relative_to(root), recursive=False, filter=_settle)
    return layer.getvalue()


def _settle(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = source_date()
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def format_image(layer: bytes) -> bytes:
    """Return an archive of an image with one layer: an OCI layout, and the list that Docker before 25 reads."""
    compressed = gzip.compress(layer, mtime=0)
    config = _json(_config(hashlib.sha256(layer).hexdigest()))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _describe(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [_describe(compressed, "application/vnd.oci.image.layer.v1.tar+gzip")],
        }
    )
    name = f"docker.io/library/{NAME}:{read_version()}"
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": read_version()}
    described = {**_describe(manifest, "application/vnd.oci.image.manifest.v1+json"), "annotations": names}
    loaded = {"Config": _blob(config), "RepoTags": [f"{NAME}:{read_version()}"], "Layers": [_blob(compressed)]}
    files = {_blob(content): content for content in (config, manifest, compressed)}
    files["index.json"] = _json({"schemaVersion": 2, "manifests": [described]})
    files["manifest.json"] = _json([loaded])
    files["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    return _archive(files)


def _config(layer: str) -> dict[str, Any]:
    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.version": read_version(),
        "org.opencontainers.image.description": f"Installs a container toolkit for AMD GPUs. {INDEPENDENCE}",
        "org.opencontainers.image.licenses": " AND ".join(
            dict.fromkeys(word for package in PACKAGES for word in package.licence.split(" AND "))
        ),
    }
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(source_date())),
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": ENTRYPOINT, "Cmd": ["--help"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }


def _describe(content: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def _json(document: object) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True).encode()


def _archive(files: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), source_date(), 0o644
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(build_image(Path(sys.argv[1])))
