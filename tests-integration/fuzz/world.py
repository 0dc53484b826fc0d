"""A simulated host with every file that programs parse, and which programs read which of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from amdgpu_simulator import build_host
from fuzz.call import call_entry

# Of no account on any machine.
USER = 60123
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Where no engine reads it.
YAML = "/opt/lab.yaml"
COMPOSE = b"""x-gpus: &gpus
  runtime: amd
  environment: {AMD_VISIBLE_DEVICES: 0-1}
services:
  one:
    <<: *gpus
    image: rocm/pytorch
    env_file: [one.env]
    devices: ["/dev/kfd:/dev/kfd:rw"]
"""
POD = b"""apiVersion: v1
kind: Pod
metadata: {name: lab}
spec:
  containers:
  - name: one
    image: rocm/pytorch
    env: [{name: AMD_VISIBLE_DEVICES, value: "0"}]
    resources: {limits: {amd.com/gpu=1: 1}}
"""
VARIABLES = b"AMD_VISIBLE_DEVICES=0\n# one\nexport A='b'\nHOME\n"
HISTORY = "var/lib/amd-container-toolkit/history"
Call = tuple[str, ...]
LAYERS = {"config": "config.v1+json", "layer": "layer.v1.tar+gzip"}
REQUESTS = (
    *(
        b"0",
        b"0-2",
        b"all",
        b"none",
        b"0,3",
        b"0xEA35F57CC80DEB35",
        b"0000:03:00.0",
        b"0:p0",
        b"amd.com/gpu=1",
        b"1-3,0",
    ),
    b"GPU-ea35f57cc80deb35",
)


class Input(NamedTuple):
    """A file that is changed, what is changed in it, and the calls that read it; no file is a word of the call."""

    parser: str
    path: str
    seeds: tuple[bytes, ...]
    calls: tuple[Call, ...]


class World:
    """The simulated host and a bundle, made again whenever programs may have changed them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}
        self.inputs: tuple[Input, ...] = ()
        self.make()

    def make(self) -> None:
        """Make everything as it is before the first change."""
        shutil.rmtree(self.directory, ignore_errors=True)
        host = build_host(self.directory / "host", "mi210-4", bare=True)
        self.environment = {"AMD_CTK_HOST_ROOT": host.root, "PATH": PATH, "HOME": os.fspath(self.directory)}
        _write_bundle(self.directory / "bundle")
        _write_layout(self.directory / "image")
        _write_archive(self.directory / "saved.tar")
        for call in self._set_up():
            outcome = call_entry(call[0], call[1:], self.environment)
            assert outcome.code == 0, (call, outcome.output)
        # Reading YAML takes ten times as long as JSON; calls for other inputs need not do it.
        (self.directory / "host/var/lib/amd-container-toolkit/cdi" / f"{quote(YAML, safe='')}.json").unlink()
        self._copy_lease()
        self._write_history()
        for name, content in (("compose.yaml", COMPOSE), ("pod.yaml", POD), ("one.env", VARIABLES)):
            (self.directory / name).write_bytes(content)
        self.inputs = self.inputs or tuple(self._find_inputs())

    def change(self, chosen: Input, content: bytes) -> Call:
        """Write a changed file of an input; return the words that stand for it in calls, if it is none."""
        if not chosen.path:
            return (content.replace(b"\0", b"").decode("utf-8", "surrogateescape"),)
        self._path(chosen).write_bytes(content)
        return ()

    def restore(self, chosen: Input) -> None:
        """Write an input back, and remove what calls left behind."""
        if chosen.path:
            self._path(chosen).write_bytes(chosen.seeds[0])
        for lease in (self.directory / "host/run/amd-container-toolkit/leases").glob("fuzzed*"):
            lease.unlink()

    def _path(self, chosen: Input) -> Path:
        return self.directory / chosen.path

    def _set_up(self) -> Sequence[Call]:
        bundle = f"{self.directory}/bundle"
        return (
            ("amd-ctk", "config", "set", "low-level-runtime", "/bin/true"),
            ("amd-ctk", "runtime", "configure"),
            ("amd-gpu-tracker", "enable"),
            # Of two GPUs: JSON that breaks is read as YAML, which takes 10 ms for each kilobyte.
            ("amd-ctk", "cdi", "generate", "--gpus=0,1"),
            ("amd-ctk", "cdi", "generate", f"--output={YAML}", "--annotations", "--by-model"),
            ("amd-gpu-tracker", "1", "exclusive"),
            ("amd-container-runtime", "--root", f"{self.directory}/state", "create", "--bundle", bundle, "c1"),
        )

    def _copy_lease(self) -> None:
        """Give a user the lease that the runtime wrote for root."""
        leases = self.directory / "host/run/amd-container-toolkit/leases"
        theirs = self.directory / f"host/run/user/{USER}/amd-container-toolkit/leases"
        theirs.mkdir(parents=True)
        for lease in leases.iterdir():
            shutil.copy(lease, theirs / "c2@%2Fs.json")
            lease.rename(leases / "c1@%2Fs.json")
        for path in (theirs.parents[1], theirs.parent, theirs, theirs / "c2@%2Fs.json"):
            os.chown(path, USER, USER)

    def _write_history(self) -> None:
        """End the reservation of the container once, and let it run, too."""
        history = self.directory / "host" / HISTORY
        (begun,) = (history / "open").iterdir()
        month, line = begun.read_text().splitlines()
        looked = (
            f'{line},"last":900000.5,"looks":2,"busy_sum":0.5,"peak_bytes":1073741824,"name":"job","image":"rocm/x"'
        )
        begun.rename(history / "open/c1@%2Fs").write_text(f"{month}\n{looked}\n")
        (history / "2026-01.jsonl").write_text(f'\n{looked},"end":900123.45,"how":"hook"}}\n' * 2)

    def _find_inputs(self) -> Sequence[Input]:
        bundle = f"{self.directory}/bundle"
        create = ("amd-container-runtime", "--root", f"{self.directory}/state", "create", "--bundle", bundle, "fuzzed")
        status = (("amd-gpu-tracker", "status", "--wide"), ("amd-gpu-tracker", "status", "--json"))
        validate = ("amd-ctk", "cdi", "validate", "--path")
        image, archive = f"oci:{self.directory}/image", f"docker-archive:{self.directory}/saved.tar"
        page = f"--html={self.directory}/page.html"
        reports = tuple(("amd-ctk", "report", "--since=2020-01-01", word) for word in ("--by=image", "--csv", page))
        listed = (("amd-ctk", "gpu", "list", "--json"), ("amd-ctk", "cdi", "generate", "--output=-"))
        return (
            Input("requests", "", REQUESTS, (("amd-ctk", "explain", "--env", "AMD_VISIBLE_DEVICES="),)),
            Input(
                "requests",
                "",
                (b"/dev/kfd", b"/dev/dri/card3:/dev/dri/card3:rw"),
                (("amd-ctk", "explain", "--device="),),
            ),
            Input("requests", "", REQUESTS, (("amd-ctk", "gpu", "query", "--format={gfx}", "--gpus="),)),
            self._file("settings", "host/etc/amd-container-toolkit/config.toml", ("amd-ctk", "config", "show"), create),
            self._file("settings", "host/etc/amd-container-toolkit/config.compiled", create),
            self._file("specs", "bundle/config.json", create, ("amd-ctk", "explain", "--bundle", bundle)),
            self._file(
                "cdi", "host/etc/cdi/amd.json", (*validate, "/etc/cdi/amd.json"), ("amd-ctk", "cdi", "list", "--specs")
            ),
            self._file("cdi-yaml", f"host{YAML}", (*validate, YAML)),
            *(
                self._file("cdi", os.fspath(path.relative_to(self.directory)), ("amd-ctk", "cdi", "refresh"))
                for path in sorted((self.directory / "host/var/lib/amd-container-toolkit/cdi").iterdir())
            ),
            self._file(
                *("state", "host/var/lib/amd-container-toolkit/gpu-tracker.json", *status, create),
                *(("amd-gpu-tracker", "0", "exclusive"), ("amd-gpu-tracker", "1", "shared")),
            ),
            self._file("leases", "host/run/amd-container-toolkit/leases/c1@%2Fs.json", *status, create),
            *(
                self._file("history", f"host/{HISTORY}/{name}", *reports, ("amd-ctk", "usage", "sample"))
                for name in ("2026-01.jsonl", "open/c1@%2Fs")
            ),
            *(
                self._file("explained", name, ("amd-ctk", "explain", f"{self.directory}/{file}", "one"))
                for name, file in (
                    ("compose.yaml", "compose.yaml"),
                    ("one.env", "compose.yaml"),
                    ("pod.yaml", "pod.yaml"),
                )
            ),
            self._file("leases", f"host/run/user/{USER}/amd-container-toolkit/leases/c2@%2Fs.json", *status),
            self._file(
                "daemon.json",
                "host/etc/docker/daemon.json",
                ("amd-ctk", "runtime", "configure"),
                ("amd-ctk", "runtime", "configure", "--remove"),
            ),
            *(
                self._file("image", f"image/{name}", ("amd-ctk", "image", "check", "--deep", image))
                for name in _layout_files(self.directory)
            ),
            self._file("archive", "saved.tar", ("amd-ctk", "image", "targets", "--deep", archive)),
            *(self._file("sysfs", name, *listed, create) for name in _sysfs_files(self.directory)),
        )

    def _file(self, parser: str, path: str, *calls: Call) -> Input:
        return Input(parser, path, ((self.directory / path).read_bytes(),), calls)


def _write_archive(path: Path) -> None:
    """Write an image as `docker save` does."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("opt/x_gfx90a.co"))
    manifest = json.dumps([{"Config": "c.json", "Layers": ["0.tar"]}]).encode()
    with tarfile.open(path, mode="w") as archive:
        for name, content in {"0.tar": layer.getvalue(), "c.json": b"{}", "manifest.json": manifest}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _layout_files(directory: Path) -> list[str]:
    return sorted(
        os.fspath(path.relative_to(directory / "image")) for path in (directory / "image").rglob("*") if path.is_file()
    )


def _sysfs_files(directory: Path) -> list[str]:
    nodes = directory / "host/sys/devices/virtual/kfd/kfd"
    found = [nodes / "dev", *nodes.glob("topology/nodes/[04]/*"), *nodes.glob("topology/nodes/4/*/0/properties")]
    functions = sorted((directory / "host/sys/devices").rglob("unique_id"))[:1]
    attributes = [path for function in functions for path in function.parent.iterdir()]
    return sorted(os.fspath(path.relative_to(directory)) for path in (*found, *attributes) if path.is_file())


def _write_bundle(bundle: Path) -> None:
    bundle.mkdir()
    spec = {
        "ociVersion": "1.0.2",
        "process": {"args": ["sh"], "env": ["PATH=/bin", "AMD_VISIBLE_DEVICES=0"], "user": {"uid": 0, "gid": 0}},
        "root": {"path": "rootfs"},
        "annotations": {"org.example": "1"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "hooks": {"prestart": [{"path": "/bin/true"}]},
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
            "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 438, "uid": 0}],
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {"limit": 1 << 30}},
        },
    }  # fmt: skip
    (bundle / "config.json").write_text(json.dumps(spec))


def _write_layout(directory: Path) -> None:
    """Write a small image in the layout of OCI; blobs that do not have their name's digest are part of the test."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("opt/rocm/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco", "opt/rocm/.info/version"):
            tar.addfile(tarfile.TarInfo(name))
    blobs = {"layer": gzip.compress(layer.getvalue(), mtime=0)}
    blobs["config"] = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Labels": {"gfx": "gfx90a"}}}
    ).encode()
    described = {name: _descriptor(f"application/vnd.oci.image.{kind}", blobs[name]) for name, kind in LAYERS.items()}
    manifest = {"schemaVersion": 2, "config": described["config"], "layers": [described["layer"]]}
    blobs["manifest"] = json.dumps(manifest).encode()
    top = {
        "schemaVersion": 2,
        "manifests": [_descriptor("application/vnd.oci.image.manifest.v1+json", blobs["manifest"])],
    }
    (directory / "blobs/sha256").mkdir(parents=True)
    for blob in blobs.values():
        (directory / "blobs/sha256" / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
    (directory / "index.json").write_text(json.dumps(top))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}
