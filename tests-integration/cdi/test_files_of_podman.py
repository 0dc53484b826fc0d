"""CDI devices by files that Podman reads in place of a command line: pods and units."""

from __future__ import annotations

import pytest

from support.box import Box, nodes_of
from support.cdi_engines import IMAGE_ARCHIVE, PodmanInBox, put_image
from support.cdi_questions import put_specs
from support.debian_root import debian_root
from support.docker import IMAGE
from support.installed import require_root
from support.oci_archive import pack_oci
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# GPU 0 of the host.
GPU_0 = ["/dev/kfd", "/dev/dri/card3", "/dev/dri/renderD130"]
POD = f"""\
apiVersion: v1
kind: Pod
metadata:
  name: training
spec:
  restartPolicy: Never
  containers:
    - name: main
      image: {IMAGE}
      command: ["list-gpus"]
      resources:
        limits:
          amd.com/gpu=0: 1
"""
UNIT = f"""\
[Container]
Image={IMAGE}
AddDevice=amd.com/gpu=0
Exec=list-gpus
"""
# Debian's Podman recommends the program that holds a pod's namespaces, and the root has no recommended packages.
NO_CATATONIT = b'[engine]\ninfra_image = "pause:local"\n'


@pytest.fixture(scope="module")
def podman(tmp_path_factory, generate, image_archive):
    """Return the newest Podman, in a box with the specs of four MI210."""
    require_root()
    directory = tmp_path_factory.mktemp("files")
    with Box(str(debian_root("forky")), directory, nodes_of(generate())) as box:
        put_image(box, image_archive, pack_oci(image_archive, directory / "oci.tar", IMAGE))
        put_specs(box, generate)
        box("mkdir", "-p", "/etc/containers/containers.conf.d")
        box.write("/etc/containers/containers.conf.d/pause.conf", NO_CATATONIT)
        podman = PodmanInBox(box)
        podman.call("import", "--quiet", "--change", 'CMD ["sleep", "600"]', IMAGE_ARCHIVE, "pause:local")
        yield podman


def seen_by(printed):
    return sorted(paths(parse_seen(printed)))


def test_a_pod_has_the_device_that_its_limits_name(podman):
    podman.box.write("/root/pod.yaml", POD.encode())

    podman.call("kube", "play", "--network=none", "/root/pod.yaml")

    podman.call("wait", "training-main")
    assert seen_by(podman.call("logs", "training-main").stdout) == sorted(GPU_0)


def test_a_unit_of_a_container_has_the_device_that_it_adds(podman):
    podman.box.write("/etc/containers/systemd/training.container", UNIT.encode())

    unit = podman.box("/usr/lib/systemd/system-generators/podman-system-generator", "--dryrun").stdout

    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert " --device amd.com/gpu=0 " in start
