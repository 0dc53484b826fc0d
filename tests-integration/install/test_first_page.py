"""The lines of docs/how-to/install.md on machines on which nothing of the toolkit is installed, up to a container.

The machines are Debian 12 and 13 with an engine, in boxes whose /sys and /dev are those of a simulated host. They have
no network: an image that only lists its GPUs stands in for rocm/rocm-terminal, and apt asks no repository but that of
the page. Nothing of systemd runs in them; a script of the name `service` restarts Docker.
"""

from __future__ import annotations

import json

import pytest

from install.first_page import (
    COMMANDS,
    DAEMON_JSON,
    EVERY_NODE,
    IMAGE,
    READ_AGAIN,
    RUN_PODMAN,
    machine_over,
    make_image,
    make_repository,
    nodes_in,
    prepare_podman,
    put_in,
    remove_while_docker_runs,
    start_docker,
    type_lines,
)
from support.debian_root import debian_root
from support.installed import require_programs, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.timeout(1800), pytest.mark.amd_host("mi210-4")]

# Nobody is there to answer apt, and what it would ask of the archive is there already.
APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
FIND = "cd /srv/amd-container-toolkit && sudo cp *.asc /etc/apt/keyrings/ && sudo cp *.sources /etc/apt/sources.list.d/"
INSTALL = "sudo apt update && sudo apt install amd-container-toolkit && sudo amd-ctk cdi generate"
CONFIGURE = "sudo amd-ctk runtime configure --restart"
LINES = {
    "podman": [FIND, INSTALL, RUN_PODMAN],
    "docker": [FIND, INSTALL, CONFIGURE, f"sudo docker run --rm --device amd.com/gpu=all {IMAGE} rocm-smi"],
    "docker without CDI": [
        *(FIND, INSTALL, CONFIGURE),
        f"sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all {IMAGE} rocm-smi",
    ],
}


@pytest.fixture(scope="module")
def repository(debs, tmp_path_factory):
    """Return the repository that a release makes of the debs of this checkout."""
    require_programs("createrepo_c", "podman")
    return make_repository(debs, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def image(rootfs, tmp_path_factory):
    return make_image(rootfs, tmp_path_factory.mktemp("rocm"))


@pytest.fixture
def machine(suite, engine, repository, image, tmp_path, amd_host):
    """Return a machine with four MI210 and an engine that has the image."""
    require_root()
    with machine_over(debian_root(suite), tmp_path / "box", amd_host.path) as box:
        put_in(box, repository, image)
        box("rm", "-f", "/etc/apt/sources.list")
        box.write("/etc/apt/apt.conf.d/99tests", APT.encode())
        if engine == "podman":
            prepare_podman(box)
        else:
            start_docker(box)
        yield box


@pytest.mark.parametrize(("suite", "engine"), [
    ("bookworm", "podman"), ("trixie", "podman"), ("bookworm", "docker without CDI"), ("trixie", "docker"),
])  # fmt: skip
def test_the_lines_of_the_readme_lead_to_a_container_with_gpus(machine, suite, engine):
    assert set(LINES[engine]) <= set(COMMANDS)
    assert len(LINES[engine]) == (3 if engine == "podman" else 4)

    printed = type_lines(machine, LINES[engine], f"{suite} {engine}")

    assert nodes_in(printed) == EVERY_NODE


@pytest.mark.parametrize(("suite", "engine", "verb"), [
    ("bookworm", "docker without CDI", "remove"), ("trixie", "docker", "purge"), ("forky", "docker", "remove"),
])  # fmt: skip
def test_containers_start_after_the_removal_though_the_runtime_was_dockers_default(machine, suite, engine, verb):
    type_lines(machine, [FIND, INSTALL, f"{CONFIGURE} --set-as-default"], f"{suite} {engine}")
    packages = "amd-container-toolkit amd-ctk amd-container-runtime"

    removed = remove_while_docker_runs(machine, f"apt {verb} --autoremove {packages}")

    assert READ_AGAIN in removed
    assert json.loads(machine("cat", "/etc/docker/daemon.json").stdout) == DAEMON_JSON
