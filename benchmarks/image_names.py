"""Compare `amd-ctk image targets` with `tar -tf` of the same layer: `image_names.py [NAMES] [GIBIBYTES]`.

The layer has that many names and a file of zeros of that size, compressed as engines do it. Times are those of the
processor, so that other work on the machine counts for little; the memory is the most that the program had.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

CHUNK = bytes(2**20)


def main(words: list[str]) -> None:
    """Make a layer, list it with both programs and print what that took."""
    names, gibibytes = map(int, words or ("1000000", "20"))
    with TemporaryDirectory() as directory:
        layer = write_layout(Path(directory), names, gibibytes)
        tar = measure("tar", "-tf", str(layer))
        program = Path(sys.executable).parent / "amd-ctk"
        read = measure(str(program), "image", "targets", f"oci:{directory}")
    print(f"{names} names and {gibibytes} GiB of zeros, {layer.name[:8]}")
    print(f"tar -tf            {tar[0]:6.2f} s")
    print(f"amd-ctk            {read[0]:6.2f} s, {read[0] / tar[0]:.2f} times as long, {read[1] // 1024} MiB of memory")


def write_layout(directory: Path, names: int, gibibytes: int) -> Path:
    """Write an OCI image layout of one layer and return the path of the layer."""
    blobs = directory / "blobs/sha256"
    blobs.mkdir(parents=True)
    made = directory / "layer"
    with gzip.open(made, "wb", compresslevel=1) as file:
        zeros = tarfile.TarInfo("var/zeros")
        zeros.size = gibibytes * 2**30
        file.write(zeros.tobuf())
        for _ in range(gibibytes * 1024):
            file.write(CHUNK)
        for number in range(names):
            file.write(tarfile.TarInfo(f"usr/lib/python3/dist-packages/pkg/{number}.py").tobuf(tarfile.USTAR_FORMAT))
        file.write(tarfile.TarInfo("opt/rocm/lib/x_gfx942.co").tobuf() + bytes(1024))
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    layer = made.rename(blobs / digest)
    config = add_blob(blobs, {"config": {}})
    manifest = add_blob(blobs, {"config": config, "layers": [{"digest": f"sha256:{digest}"}]})
    (directory / "index.json").write_text(json.dumps({"manifests": [manifest]}), encoding="utf-8")
    return layer


def add_blob(blobs: Path, document: dict[str, object]) -> dict[str, object]:
    """Write a document as a blob and return its descriptor."""
    content = json.dumps(document).encode()
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def measure(*words: str) -> tuple[float, int]:
    """Return the processor seconds and the most memory (KiB) of a program and of those it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, after.ru_maxrss


if __name__ == "__main__":
    main(sys.argv[1:])
