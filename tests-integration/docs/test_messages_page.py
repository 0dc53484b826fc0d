"""Every sentence of docs/reference/messages.md is what the runtime really says."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from support.documentation import read_page
from support.installed import our_program
from support.transcripts import is_match

PAGE = read_page("docs/reference/messages.md")
SENTENCES = re.findall(r"^```text\n(amd-container-runtime: .*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


class Scene:
    """A simulated host and a bundle that asks for GPUs, to be spoilt."""

    def __init__(self, directory: Path, profile: str = "mi210-4") -> None:
        self.host = build_host(directory / "host", profile)
        self.root = Path(self.host.root)
        self.config = directory / "bundle/config.json"
        self.config.parent.mkdir()
        self.host_variable = self.host.root
        self.ask("AMD_VISIBLE_DEVICES=0-2")

    def ask(self, *environment: str) -> None:
        self.config.write_text(json.dumps({"process": {"env": list(environment)}}), encoding="utf-8")

    def set(self, line: str) -> None:
        settings = self.root / "etc/amd-container-toolkit/config.toml"
        settings.parent.mkdir()
        settings.write_text(line, encoding="utf-8")

    def create(self, runc: Path) -> str:
        ended = subprocess.run(
            [our_program("amd-container-runtime"), "create", "--bundle", self.config.parent, "web"],
            env={"PATH": f"{runc.parent}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": self.host_variable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode != 0
        return ended.stderr


def ask_for(*environment: str) -> Callable[[Scene], None]:
    return lambda scene: scene.ask(*environment)


def remove(path: str) -> Callable[[Scene], None]:
    return lambda scene: (scene.root / path).unlink()


def unload_the_driver(scene: Scene) -> None:
    build_host(scene.root, "no-driver")


def hide_gpus_from_kfd(scene: Scene) -> None:
    shutil.rmtree(scene.root / "sys/class/kfd/kfd/topology/nodes")
    scene.ask("AMD_VISIBLE_DEVICES=all")


def put_another_device(scene: Scene) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes device nodes")
    node = scene.root / "dev/dri/renderD130"
    node.unlink()
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def put_a_directory(scene: Scene) -> None:
    (scene.root / "dev/kfd").unlink()
    (scene.root / "dev/kfd").mkdir()


def open_the_directory_for_nodes(scene: Scene) -> None:
    (scene.root / "dev/amd-container-toolkit").mkdir(mode=0o755)
    scene.config.write_text(
        json.dumps({"process": {"env": ["AMD_VISIBLE_DEVICES=0"]}, "linux": {"namespaces": [{"type": "user"}]}}),
        encoding="utf-8",
    )


def use_exclusively(scene: Scene) -> None:
    tracker = Tracker(scene.host)
    tracker.enable()
    tracker.set_accessibility("1", exclusive=True)
    # This very process is the holder, and lives.
    tracker.reserve("1", name="job")


def exchange_gpus(scene: Scene) -> None:
    Tracker(scene.host).enable()
    build_host(scene.root.parent / "other", "mi210-8")
    shutil.rmtree(scene.root / "sys")
    shutil.copytree(scene.root.parent / "other/sys", scene.root / "sys", symlinks=True)


def lose_a_gpu(scene: Scene) -> None:
    Tracker(scene.host).enable()
    gpu = locate_gpus(scene.host)[1]
    shutil.rmtree(scene.root / f"sys/class/kfd/kfd/topology/nodes/{gpu.kfd_node}")
    scene.ask("AMD_VISIBLE_DEVICES=2")


def damage_the_state(scene: Scene) -> None:
    Tracker(scene.host).enable()
    (scene.root / "var/lib/amd-container-toolkit/gpu-tracker.json").write_text("{", encoding="utf-8")


def set_nonsense(scene: Scene) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("this python reads settings only as amd-ctk compiled them")
    scene.set('unknown-gpus = "maybe"\n')


def name_no_directory(scene: Scene) -> None:
    scene.host_variable = "/nowhere"


# What has to happen for each sentence, in the order of the page.
SPOILERS: list[Callable[[Scene], None]] = [
    ask_for("AMD_VISIBLE_DEVICES=0,7"),
    ask_for("AMD_VISIBLE_DEVICES=3-1"),
    ask_for("AMD_VISIBLE_DEVICES=first"),
    ask_for("AMD_VISIBLE_DEVICES=0x1234"),
    ask_for("DOCKER_RESOURCE_AMD_GPU=2"),
    ask_for("AMD_VISIBLE_DEVICES=0", "AMD_REQUIRE_GFX=gfx=gfx942"),
    unload_the_driver,
    hide_gpus_from_kfd,
    remove("dev/kfd"),
    remove("sys/class/kfd/kfd/dev"),
    put_another_device,
    put_a_directory,
    open_the_directory_for_nodes,
    use_exclusively,
    exchange_gpus,
    lose_a_gpu,
    damage_the_state,
    lambda scene: scene.config.unlink(),
    lambda scene: scene.config.write_text('{"process": AMD_VISIBLE_DEVICES', encoding="utf-8"),
    lambda scene: scene.set('low-level-runtime = "/opt/runc"\n'),
    set_nonsense,
    name_no_directory,
]


@pytest.fixture
def runc(tmp_path: Path) -> Path:
    """Return a low-level runtime that must not be reached."""
    program = tmp_path / "bin/runc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho reached runc >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_the_page_has_a_sentence_for_each_way_to_fail() -> None:
    assert len(SENTENCES) == len(SPOILERS)


@pytest.mark.parametrize(("sentence", "spoil"), list(zip(SENTENCES, SPOILERS, strict=False)))
def test_the_runtime_says_this_sentence(
    sentence: str, spoil: Callable[[Scene], None], tmp_path: Path, runc: Path
) -> None:
    scene = Scene(tmp_path)
    spoil(scene)

    said = scene.create(runc)

    assert is_match(sentence, said), said
