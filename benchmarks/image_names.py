"""Compare `amd-ctk image targets` with `tar -tf` of the same layer: `image_names.py [NAMES] [GIBIBYTES] [plain|gzip]`.

The layer has that many names, and a file of zeros of that size. Times are processor time, so other work on the machine
hardly matters; as root, both programs run with real-time priority (`chrt -f 10`). Memory is a program's peak.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

CHUNK = bytes(2**20)


def main(words: list[str]) -> None:
    """Make a layer, list it with both programs, and print their times."""
    names, gibibytes, compression = (words + ["1000000", "20", "plain"][len(words) :])[:3]
    with TemporaryDirectory() as directory:
        layer = write_layout(Path(directory), int(names), int(gibibytes), compression)
        tar = measure("tar", "-tf", str(layer))
        program = Path(sys.executable).parent / "amd-ctk"
        read = measure(str(program), "image", "targets", f"oci:{directory}")
    print(f"{names} names and {gibibytes} GiB of zeros, {compression}")
    print(f"tar -tf            {tar[0]:6.2f} s")
    print(f"amd-ctk            {read[0]:6.2f} s, {read[0] / tar[0]:.2f} times as long, {read[1] // 1024} MiB of memory")


def write_layout(directory: Path, names: int, gibibytes: int, compression: str) -> Path:
    """Write an OCI image layout of one layer and return the path of the layer."""
    blobs = directory / "blobs/sha256"
    blobs.mkdir(parents=True)
    digest = hashlib.sha256(compression.encode()).hexdigest()
    with (blobs / digest).open("wb") as file:
        if compression == "plain":
            write_layer(file, names, gibibytes)
        else:
            with gzip.open(file, "wb", compresslevel=1) as compressed:
                write_layer(compressed, names, gibibytes)
    config = add_blob(blobs, {"config": {}})
    manifest = add_blob(blobs, {"config": config, "layers": [{"digest": f"sha256:{digest}"}]})
    (directory / "index.json").write_text(json.dumps({"manifests": [manifest]}), encoding="utf-8")
    return blobs / digest


def write_layer(file: IO[bytes], names: int, gibibytes: int) -> None:
    """Write the archive; in a plain file the zeros are a hole."""
    zeros = tarfile.TarInfo("var/zeros")
    zeros.size = gibibytes * 2**30
    file.write(zeros.tobuf(tarfile.GNU_FORMAT))
    if isinstance(file, gzip.GzipFile):
        for _ in range(gibibytes * 1024):
            file.write(CHUNK)
    else:
        file.seek(zeros.size, os.SEEK_CUR)
    for number in range(names):
        file.write(tarfile.TarInfo(f"usr/lib/python3/dist-packages/pkg/{number}.py").tobuf(tarfile.USTAR_FORMAT))
    file.write(tarfile.TarInfo("opt/rocm/lib/x_gfx942.co").tobuf() + bytes(1024))


def add_blob(blobs: Path, document: dict[str, object]) -> dict[str, object]:
    """Write a document as a blob and return its descriptor."""
    content = json.dumps(document).encode()
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def measure(*words: str) -> tuple[float, int]:
    """Return the processor seconds and the peak memory (KiB) of a program and its children."""
    first = ("chrt", "-f", "10") if os.geteuid() == 0 else ()
    process = subprocess.Popen([*first, *words], stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C.UTF-8"})
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


if __name__ == "__main__":
    main(sys.argv[1:])
