"""An image of a machine is built where systemd does not run and there is no GPU."""

from __future__ import annotations

import shutil

import pytest

from install.compiled import compiled_for
from install.root import build_root
from install.rpm_root import RpmRoot
from support.installed import require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install]


@pytest.fixture
def image(suite, debs, tmp_path):
    """Return a root file system in which nothing runs, with the debs in /debs."""
    require_root()
    root = RpmRoot(tmp_path, [build_root(suite)], tmp_path)
    (root.upper / "debs").mkdir()
    for deb in debs:
        shutil.copy(deb, root.upper / "debs")
    return root


def test_packages_are_installed_in_an_image_and_ready_when_it_boots(image, suite):
    image.run("apt-get -qq -y install /debs/*.deb")

    units = "amd-cdi-refresh.service\namd-cdi-watch.service\n"
    assert image.run("cd /etc/systemd/system/multi-user.target.wants && ls amd-*") == units
    assert compiled_for(image.run) == {{"bookworm": "cpython-311", "trixie": "cpython-313"}[suite]: "all"}
    assert "amdgpu" in image.run("amd-ctk gpu list", check=False)
    assert image.run("dpkg --audit") == ""
    image.run("apt-get -qq -y purge 'amd-*' amdgpu-discovery")
    assert image.run("find /usr /etc /var/lib -name 'amd-*' -not -path '/var/lib/dpkg/*'") == ""
