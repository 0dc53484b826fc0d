"""This machine's Podman, as root and as a user without privileges, with a spec that amd-ctk generated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import cdi_questions
from support.box import Box, add_user, nodes_of
from support.cdi_engines import PodmanInBox, RootlessPodmanInBox, put_image
from support.cdi_questions import put_specs
from support.docker import IMAGE
from support.installed import our_program, require_programs, require_root
from support.oci_archive import pack_oci

pytestmark = [pytest.mark.e2e, pytest.mark.podman]

CHECKOUT = Path(__file__).parents[2]

COMMON = cdi_questions.COMMON_QUESTIONS
ROOT = {**COMMON, **cdi_questions.ROOTFUL_QUESTIONS}
ROOTLESS = {**COMMON, **cdi_questions.ROOTLESS_QUESTIONS}
EXPECTED = {
    # Nothing inside a user namespace is in the host's render group.
    "host nodes 0660 `root:render`: opens": "refused-by-mode",
}
# Podman 4.3 reads CDI 0.5.0 and nothing later, which is why that is what is written; 5.4 reads all.
EXPECTED_OF_4 = {
    "`--annotations` (CDI 0.6.0)": "no",
    "`--additional-gids` (CDI 0.7.0)": "no",
}


@pytest.fixture(scope="module")
def box(tmp_path_factory, generate, image_archive, cdi_host):
    """Return a box over this machine, whose /etc/cdi stays as it is."""
    require_root()
    require_programs("podman", "crun", "conmon", "newuidmap")
    directory = tmp_path_factory.mktemp("podman")
    # Hooks of a spec run this project's code, which serves the simulated host.
    shared = (sys.prefix, os.fspath(CHECKOUT), cdi_host.root)
    with Box("/", directory, nodes_of(generate()), shared=shared) as box:
        put_image(box, image_archive, pack_oci(image_archive, directory / "oci.tar", IMAGE))
        add_user(box)
        put_specs(box, generate)
        yield box


@pytest.fixture(scope="module")
def as_root(box):
    return PodmanInBox(box)


@pytest.fixture(scope="module")
def rootless(box):
    return RootlessPodmanInBox(box)


@pytest.fixture(scope="module")
def expected(as_root):
    """Return what this Podman answers where that is not "yes"."""
    return {**EXPECTED, **(EXPECTED_OF_4 if as_root.version().startswith("4.") else {})}


@pytest.mark.parametrize("question", ROOT)
def test_podman_as_root_hands_out_gpus(as_root, expected, question):
    assert ROOT[question](as_root) == expected.get(question, "yes")


@pytest.mark.parametrize("question", ROOTLESS)
def test_podman_of_a_user_hands_out_gpus_as_far_as_the_hosts_modes_allow(rootless, expected, question):
    assert ROOTLESS[question](rootless) == expected.get(question, "yes")


@pytest.fixture
def exclusive_gpu_0(box, cdi_host, generate):
    """Make GPU 0 exclusive for one test, and give the spec the tracker's hooks."""

    def track(*words):
        environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": cdi_host.root}
        subprocess.run(
            [our_program("amd-ctk"), "gpu-tracker", *words], env=environment, check=True, capture_output=True
        )
        box.write("/etc/cdi/amd.com.json", generate())

    track("enable")
    track("0", "exclusive")
    yield
    track("disable")


def test_an_exclusive_gpu_is_refused_to_a_second_container(box, exclusive_gpu_0):
    # crun tells that a hook failed, runc tells what it said.
    podman = PodmanInBox(box, runtime="runc")

    first = podman.start("amd.com/gpu=0")
    second = podman.run("amd.com/gpu=all", "true")
    other = podman.run("amd.com/gpu=1", "true")
    podman.remove(first)
    third = podman.run("amd.com/gpu=0", "true")

    assert second.returncode != 0
    assert "GPUs [0] are exclusive and already in use" in second.stderr
    assert (other.returncode, third.returncode) == (0, 0)
