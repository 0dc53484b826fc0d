"""What a container of Apptainer 1.4 sees of GPUs, which is the first that Debian has and does not know CDI."""

from __future__ import annotations

import shutil

import pytest

from support.box import USER, Box, add_user, nodes_of
from support.debian_root import EXPERIMENTAL, debian_root, of
from support.installed import require_root
from support.seen import parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.engines, *of(EXPERIMENTAL)]

GPU_0 = ["/dev/kfd", "/dev/dri/renderD130"]
RENDER_NODES = [f"/dev/dri/renderD{minor}" for minor in (128, 129, 130, 131)]


@pytest.fixture(scope="module")
def opened(tmp_path_factory, generate, rootfs):
    """Return a function that gives what a user's container opens with some options, on a machine with four MI210."""
    require_root()
    with Box(str(debian_root(EXPERIMENTAL)), tmp_path_factory.mktemp("apptainer"), nodes_of(generate())) as box:
        add_user(box)
        shutil.copytree(rootfs, box.share / "sandbox", symlinks=True)

        def run(*options):
            ended = box("apptainer", "--silent", "exec", *options, "/box/sandbox", "list-gpus", user=USER)
            return [node.path for node in parse_seen(ended.stdout) if node.access == "opens"]

        yield run


def test_a_container_opens_every_gpu_that_its_user_may_open(opened):
    assert opened() == ["/dev/kfd", *RENDER_NODES]


def test_rocm_opens_every_gpu_too(opened):
    assert opened("--contain", "--rocm") == ["/dev/kfd", *RENDER_NODES]


def test_with_contain_a_container_opens_what_is_bound_alone(opened):
    assert opened("--contain") == []
    assert opened("--contain", f"--bind={','.join(GPU_0)}") == GPU_0
