"""Every Compose file that the documentation shows gives its service GPU 0, as `amd-ctk explain` reads it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator.runs.server import SimulatedServer
from support.documentation import read_page
from support.installed import our_program

RENDER_NODE_OF_GPU_0 = "/dev/dri/renderD130"
FILES = re.findall(r"^```yaml\n(.*?)^```$", read_page("docs/how-to/compose.md"), re.MULTILINE | re.DOTALL)


def run(host_root: Path, *words: str | Path) -> str:
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": host_root}
    return subprocess.run(
        [our_program("amd-ctk"), *words], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.mark.amd_host("mi210-4")
@pytest.mark.parametrize("text", FILES, ids=["runtime", "deploy", "devices", "gpus"])
def test_a_compose_file_of_the_page_gives_gpu_0(tmp_path: Path, amd_host: SimulatedServer, text: str) -> None:
    run(amd_host.path, "runtime", "configure")
    run(amd_host.path, "cdi", "generate")
    (tmp_path / "compose.yaml").write_text(text, encoding="utf-8")

    said = run(amd_host.path, "explain", tmp_path / "compose.yaml", "rocm")

    assert re.findall(r"/dev/dri/renderD\d+", said) == [RENDER_NODE_OF_GPU_0], said
    assert "problem: " not in said
