"""Every line of the README's section "Install", typed on a Debian with engines and four GPUs, up to the removal.

The machines are boxes with the network of this one, so that `./install` downloads what it needs. Their /sys and /dev
are those of a simulated host, and an image whose rocm-smi lists the GPUs that it can open takes the place of AMD's.
Nothing of systemd runs in them; a script of the name `service` restarts Docker.
"""

from __future__ import annotations

import shutil

import pytest

from fresh.access import write_access
from fresh.machine import copy_sources
from install.first_page import (
    EVERY_NODE,
    IMAGE,
    READ_AGAIN,
    machine_over,
    make_image,
    nodes_in,
    prepare_podman,
    start_docker,
)
from support.box import USER, add_user
from support.debian_root import debian_root
from support.documentation import read_page
from support.installed import require_root
from support.transcripts import parse_page

pytestmark = [pytest.mark.e2e, pytest.mark.fresh, pytest.mark.timeout(3600), pytest.mark.amd_host("mi210-4")]

INSTALL = "sudo ./install && sudo amd-ctk cdi generate"
PODMAN = f"sudo podman run --rm --device amd.com/gpu=all {IMAGE} rocm-smi"
ROOTLESS = f"podman run --rm --group-add keep-groups --device amd.com/gpu=all {IMAGE} rocm-smi"
CONFIGURE = "sudo amd-ctk runtime configure --restart"
DOCKER = f"sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all {IMAGE} rocm-smi"
REMOVE = "sudo ./install --remove"
# What a member of the group `render` may open, and all that ROCm needs; cards belong to the group `video`.
NODES_OF_RENDER = ["kfd", "renderD128", "renderD129", "renderD130", "renderD131"]
# In seconds; what builds the packages comes over the network.
LONGEST_COMMAND = 1200


@pytest.fixture(params=["bookworm", "trixie"])
def machine(request, rootfs, tmp_path, amd_host):
    """Return a machine with four MI210, Docker, Podman, a user and a clone of this checkout."""
    require_root()
    image = make_image(rootfs, tmp_path)
    with machine_over(debian_root(request.param), tmp_path / "box", amd_host.path, online=True) as box:
        copy_sources(box.share / "checkout")
        shutil.copy(image, box.share / "image.tar")
        give_network(box)
        add_user(box)
        prepare_podman(box)
        box("podman", "import", "--quiet", "/box/image.tar", IMAGE, user=USER)
        start_docker(box)
        yield box


def give_network(box):
    """Let apt and pip in a box reach what this machine reaches."""
    settings = box.share / "network"
    settings.mkdir()
    write_access(settings)
    box("cp", "-r", "/box/network/etc/.", "/etc/")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", settings / "etc" / name)
        box("cp", f"/box/network/etc/{name}", f"/etc/{name}")


def type_line(box, line, *, user=""):
    """Type a line of the README in the checkout; return what it prints."""
    script = f'sudo() {{ "$@"; }}\ncd {"/" if user else "/box/checkout"}\n{line} 2>&1'
    return box("sh", "-c", script, user=user, timeout=LONGEST_COMMAND).stdout


def test_every_line_of_the_first_page_does_what_it_says(machine):
    shown = [step.command for step in parse_page(read_page("README.md"))[0].steps]
    assert shown == [INSTALL, PODMAN, ROOTLESS, CONFIGURE, DOCKER]

    assert "Installed amd-ctk version " in type_line(machine, INSTALL)
    assert nodes_in(type_line(machine, PODMAN)) == EVERY_NODE
    assert nodes_in(type_line(machine, ROOTLESS, user=USER)) == NODES_OF_RENDER
    type_line(machine, CONFIGURE)
    assert nodes_in(type_line(machine, DOCKER)) == EVERY_NODE

    assert "Installed amd-ctk version " in type_line(machine, INSTALL)
    type_line(machine, f"{CONFIGURE} --set-as-default")
    assert type_line(machine, REMOVE) == (
        f"{READ_AGAIN}"
        "Removed the packages; 'docs/how-to/uninstall.md' says what stays\n"
        "Restart Docker, which still lists the runtime that is gone: 'sudo systemctl restart docker'\n"
    )
    assert machine(
        "sh", "-c", "ls /usr/bin/amd-* /etc/cdi /usr/lib/amd-container-toolkit 2>&1", check=False
    ).stdout == (
        "ls: cannot access '/usr/bin/amd-*': No such file or directory\n"
        "ls: cannot access '/usr/lib/amd-container-toolkit': No such file or directory\n"
        "/etc/cdi:\n"
    )


def test_lintian_of_this_release_has_nothing_to_say_about_the_packages(machine):
    type_line(machine, INSTALL)
    quiet = "DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends"
    type_line(machine, f"{quiet} install lintian </dev/null >/dev/null")

    found = machine("sh", "-c", "lintian --fail-on=warning /box/checkout/.nox/packages/*.deb", timeout=LONGEST_COMMAND)

    assert found.stdout == ""
