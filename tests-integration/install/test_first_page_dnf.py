"""The dnf lines of docs/how-to/install.md on machines on which nothing of the toolkit is installed, up to a container.

No distribution with rpms can be reached by the tests. The machines are Debian 13 with dnf, rpm and engines of its own,
and a stand-in for the packages of Enterprise Linux 9, 10 or Fedora: rpm believes that their release and their python
are installed. Everything else is as in test_first_page.py; the lines are typed as they stand there.
"""

from __future__ import annotations

import json

import pytest

from install.first_page import (
    COMMANDS,
    DAEMON_JSON,
    EVERY_NODE,
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
from install.rpm_root import STAND_IN, build_rpm
from support.debian_root import dnf_root
from support.installed import engine_program, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.timeout(1800), pytest.mark.amd_host("mi210-4")]

# Nobody is there to answer dnf.
DNF = "[main]\nassumeyes=True\n"
ENTERPRISE_LINUX = "sudo cp /srv/amd-container-toolkit/rpm/*-el$(rpm -E %rhel).repo /etc/yum.repos.d/"
FEDORA = "sudo cp /srv/amd-container-toolkit/rpm/*-fedora.repo /etc/yum.repos.d/"
INSTALL = "sudo dnf install amd-container-toolkit && sudo amd-ctk cdi generate"
# The line that finds the repository; what the system's packages provide, the macro that they define and the name of
# the python that the packages run with.
SYSTEMS = {
    "el9": (ENTERPRISE_LINUX, "system-release = 9, python3 = 3.9, python3.12 = 3.12", "rhel 9", "/usr/bin/python3.12"),
    "el10": (ENTERPRISE_LINUX, "system-release = 10, python3 = 3.12", "rhel 10", "/usr/bin/python3"),
    "fedora": (FEDORA, "system-release = 43, python3 = 3.14", "fedora 43", "/usr/bin/python3"),
}
RELEASES = {"el9": "1.el9", "el10": "1.el10", "fedora": "1"}


@pytest.fixture(scope="module")
def repository(rpms, tmp_path_factory):
    """Return the repository that a release makes of the rpms of this checkout."""
    engine_program("rpmsign")
    return make_repository(rpms, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def image(rootfs, tmp_path_factory):
    return make_image(rootfs, tmp_path_factory.mktemp("rocm"))


@pytest.fixture
def machine(system, repository, image, tmp_path, amd_host):
    """Return a machine with four MI210 and engines, which rpm takes for another system than Debian."""
    require_root()
    with machine_over(dnf_root(), tmp_path / "box", amd_host.path) as box:
        put_in(box, repository, image)
        stand_in_for(system, box, tmp_path)
        yield box


def stand_in_for(system, box, directory):
    """Install what stands in for a system's own packages."""
    _, provides, macro, interpreter = SYSTEMS[system]
    spec = STAND_IN.format(version=1, provides=provides, interpreter=interpreter, python="python3.13")
    build_rpm(spec, directory / "stand-in")
    (rpm,) = directory.glob("stand-in/noarch/*.rpm")
    box.write("/root/stand-in.rpm", rpm.read_bytes())
    box("rpm", "--install", "/root/stand-in.rpm")
    box.write("/etc/rpm/macros.dist", f"%{macro}\n".encode())
    box.write("/etc/dnf/dnf.conf", DNF.encode())
    box("mkdir", "-p", "/etc/yum.repos.d")


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_lines_of_the_readme_for_dnf_lead_to_a_container_with_gpus(machine, system):
    lines = [SYSTEMS[system][0], INSTALL, RUN_PODMAN]
    assert set(lines) <= set(COMMANDS)
    prepare_podman(machine)

    printed = type_lines(machine, lines, f"{system}, root with stand-ins")

    assert nodes_in(printed) == EVERY_NODE
    installed = machine("rpm", "-q", "--queryformat", "%{RELEASE}", "amd-container-toolkit").stdout
    assert installed == RELEASES[system]


@pytest.mark.parametrize("system", ["fedora"])
def test_containers_start_after_dnf_removed_the_runtime_that_was_dockers_default(machine, system):
    start_docker(machine)
    configure = "sudo amd-ctk runtime configure --restart --set-as-default"
    type_lines(machine, [SYSTEMS[system][0], INSTALL, configure], f"{system}, Docker")

    removed = remove_while_docker_runs(machine, "dnf remove amd-container-toolkit amd-ctk amd-container-runtime")

    assert READ_AGAIN in removed
    assert json.loads(machine("cat", "/etc/docker/daemon.json").stdout) == DAEMON_JSON
