"""What Incus of Debian experimental passes to a container: a GPU by itself, and with what beside it ROCm finds it."""

from __future__ import annotations

import shutil

import pytest

from support.box import Box, nodes_of
from support.debian_root import EXPERIMENTAL, debian_root, of
from support.installed import require_root
from support.seen import parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.engines, *of(EXPERIMENTAL)]

GPU_0 = ["/dev/dri/card3", "/dev/dri/renderD130"]
METADATA = "architecture: x86_64\ncreation_date: 1700000000\n"
INIT = "#!/bin/sh\nexec sleep 100000\n"


@pytest.fixture(scope="module")
def incus(tmp_path_factory, cdi_host, generate, rootfs):
    """Return a function that runs a command of Incus in a box with four MI210, where there is an image `busybox`."""
    require_root()
    directory = tmp_path_factory.mktemp("incus")
    root = debian_root(EXPERIMENTAL)
    # LXC 7 knows no other cgroups.
    with Box(str(root), directory, nodes_of(generate()), hardware=cdi_host.root, cgroup2=True) as box:
        box("mount", "--types=tmpfs", "incus", "/var/lib/incus")
        box.start("sh", "-c", "exec /usr/libexec/incus/incusd --group=root")
        box.wait_until("incus", "list")
        box("incus", "storage", "create", "default", "dir")
        shutil.copytree(rootfs, box.share / "image/rootfs", symlinks=True)
        (box.share / "image/metadata.yaml").write_text(METADATA)
        init = box.share / "image/rootfs/sbin/init"
        init.parent.mkdir()
        init.write_text(INIT)
        init.chmod(0o755)
        box("tar", "--create", "--directory=/box/image", "--file=/box/image.tar", "metadata.yaml", "rootfs")
        box("incus", "image", "import", "/box/image.tar", "--alias=busybox")
        yield lambda *words: box("incus", *words)


@pytest.fixture
def container(incus):
    """Return the name of a container that is not started yet, and that is gone at the end of a test."""
    incus("init", "busybox", "c1", "--storage=default", "--config=security.privileged=true")
    yield "c1"
    incus("delete", "--force", "c1")


def test_the_gpu_device_of_incus_passes_the_nodes_of_the_gpu_and_not_kfd(incus, container):
    incus("config", "device", "add", container, "gpu0", "gpu", "gputype=physical", "pci=0000:03:00.0")
    incus("start", container)

    seen = parse_seen(incus("exec", container, "--", "list-gpus").stdout)

    assert [(node.path, node.access) for node in seen] == [(path, "opens") for path in GPU_0]


def test_with_kfd_beside_it_a_container_has_all_that_rocm_needs_and_no_other_gpu(incus, container):
    incus("config", "device", "add", container, "gpu0", "gpu", "gputype=physical", "pci=0000:03:00.0")
    incus("config", "device", "add", container, "kfd", "unix-char", "path=/dev/kfd")
    incus("start", container)

    seen = parse_seen(incus("exec", container, "--", "list-gpus").stdout)
    by_number = parse_seen(incus("exec", container, "--", "try-numbers", "226:130", "226:128").stdout)

    assert [(node.path, node.access) for node in seen] == [(path, "opens") for path in ("/dev/kfd", *GPU_0)]
    assert [node.access for node in by_number] == ["opens", "refused-by-cgroup"]
