"""A simulated host's CDI spec, and boxes in which engines find it."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack

import pytest

from amd_device_spec.settings import CONFIG_FILE
from amdgpu_simulator import build_host
from support.box import Box, add_user, nodes_of
from support.cdi_engines import DockerInBox, put_image
from support.debian_root import EXPERIMENTAL, debian_root, tools_root
from support.debs import build_debs, install_toolkit
from support.docker import IMAGE
from support.installed import our_program, require_root
from support.oci_archive import pack_oci
from support.recorded import ENGINES, Recorded

# A build of an image, and a service of a Compose file, may name the runtime or not.
RUNTIMES = {"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}, "default-runtime": "amd"}


@pytest.fixture(scope="session")
def cdi_host(tmp_path_factory):
    """Return a host with four GPUs, under the unique ids and PCI addresses that the tests name."""
    host = build_host(tmp_path_factory.mktemp("mi210") / "host", "mi210-4")
    # Its specs are copied to machines without the toolkit, which have nothing to check images with.
    os.makedirs(os.path.dirname(host.path(CONFIG_FILE)))
    with open(host.path(CONFIG_FILE), "w", encoding="utf-8") as file:
        file.write('image-requirements = "ignore"\n')
    return host


@pytest.fixture(scope="session")
def generate(cdi_host):
    """Return a function that gives the spec `amd-ctk cdi generate` prints with some options."""

    def generate(*options):
        return subprocess.run(
            [our_program("amd-ctk"), "cdi", "generate", "--output=-", *options],
            env={"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": cdi_host.root},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout

    return generate


@pytest.fixture(scope="session")
def debs(tmp_path_factory):
    """Return a directory with the packages of this checkout."""
    return build_debs(tmp_path_factory.mktemp("debs"))


@pytest.fixture(scope="session")
def make_machine(tmp_path_factory, cdi_host, generate, image_archive, debs):
    """Return a function that makes a box over a root file system: four MI210, the toolkit, a user and an image."""
    require_root()
    with ExitStack() as stack:

        def make(root):
            directory = tmp_path_factory.mktemp(root.name)
            nodes = nodes_of(generate())
            # Podman 6 knows no other cgroups.
            newer = root.name == EXPERIMENTAL
            box = stack.enter_context(Box(str(root), directory, nodes, hardware=cdi_host.root, cgroup2=newer))
            put_image(box, image_archive, pack_oci(image_archive, directory / "oci.tar", IMAGE))
            add_user(box)
            install_toolkit(box, debs)
            box("amd-ctk", "cdi", "generate")
            return box

        yield make


@pytest.fixture(scope="session")
def make_docker(make_machine):
    """Return a function that gives a Docker of such a machine, whose default runtime is `amd`."""
    return lambda root: DockerInBox(make_machine(root), **RUNTIMES)


@pytest.fixture(scope="session")
def docker_28(make_docker):
    """Return the newest Docker, beside the programs that have it make containers."""
    return make_docker(tools_root())


@pytest.fixture(scope="module")
def recorded(make_machine):
    """Return a function that gives the machine of an engine, on which containers end in a file."""
    boxes, machines = {}, {}

    def find(name):
        suite, engine = ENGINES[name]
        if suite not in boxes:
            boxes[suite] = make_machine(debian_root(suite))
        if name not in machines:
            machines[name] = Recorded(boxes[suite], engine)
        return machines[name]

    return find
