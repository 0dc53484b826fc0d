"""Commands of `podman run --gpus` on hosts with CDI specs of AMD, of NVIDIA, of both, of others and of none."""

from __future__ import annotations

import json
from typing import NamedTuple

from support.run_lines import IMAGE, PLAIN_IMAGE

DIRECTORY = "/etc/cdi"
AMD = f"{DIRECTORY}/amd.json"


def _spec(kind: str, version: str = "0.5.0") -> str:
    edits = {name: {"env": [f"CUDA_GIVEN_BY={kind}={name}"]} for name in ("0", "all")}
    devices = [{"name": name, "containerEdits": edit} for name, edit in edits.items()]
    return json.dumps({"cdiVersion": version, "kind": kind, "devices": devices})


NVIDIA = {"nvidia.json": _spec("nvidia.com/gpu")}
# The files beside AMD's, and whether that is there too.
SPECS: dict[str, tuple[bool, dict[str, str]]] = {
    "amd": (True, {}),
    "none": (False, {}),
    "nvidia": (False, NVIDIA),
    "both": (True, NVIDIA),
    "other vendor": (False, {"box.json": _spec("box.com/gpu")}),
    "other class": (False, {"amd-fpga.json": _spec("amd.com/fpga")}),
    "nvidia, other class": (True, {"nvidia-mig.json": _spec("nvidia.com/mig")}),
    "nvidia, too new": (True, {"nvidia.json": _spec("nvidia.com/gpu", "1.1.0")}),
    "nvidia, broken": (True, {"nvidia.json": "{"}),
    "amd, too new": (False, {"amd.json": _spec("amd.com/gpu", "1.1.0")}),
}
FEW: tuple[tuple[str, ...], ...] = (("--gpus=all",), ("--gpus=0",), ("--gpus", "0", "--device=amd.com/gpu=1"))
# On a host with AMD's spec alone.
MANY: tuple[tuple[str, ...], ...] = (
    *(("--gpus=1",), ("--gpus=0,1",), ("--gpus=all", "--gpus=0"), ("--gpus=9",), ("--gpus=device=0",)),
    *(('--gpus="device=0,1"',), ("--gpus=",), ("--gpus=none",), ("--gpus=amd.com/gpu=0",), ("--gpus=driver=amd",)),
    *(("--gpus=-1",), ("--gpus=0-1",), ("--gpus=ALL",), ("--gpus=0,",), ("--gpus= 0",), ("--gpus=count=1",)),
    *(("--gpus=0x6e32f10efc982b4c",), ("--gpus=0000:43:00.0",), ("--gpus=6e00740f-0000-1000-8032-f10efc982b4c",)),
    *(("--gpus=6eff740f-0000-1000-8032-f10efc982b4c",), ("--gpus=6E00740F-0000-1000-8032-F10EFC982B4C",)),
    *(("--gpus=GPU-6e32f10efc982b4c",), ("--gpus=6e01740f-0000-1000-8032-f10efc982b4c",)),
    *(("--gpus=all", "-e", "AMD_VISIBLE_DEVICES=2"), ("--gpus=1", "-e", "HIP_VISIBLE_DEVICES=0")),
)


class GpusLine(NamedTuple):
    """A command, the key of SPECS, and whether amd-container-runtime starts the container."""

    specs: str
    words: tuple[str, ...]
    image: str
    with_runtime: bool


LINES = [
    *(GpusLine(specs, words, PLAIN_IMAGE, with_runtime=False) for specs in SPECS for words in FEW),
    *(GpusLine("amd", words, PLAIN_IMAGE, with_runtime=False) for words in MANY),
    *(GpusLine("amd", words, IMAGE, with_runtime=True) for words in (*FEW, *MANY)),
]
