"""dnf installs the product, upgrades it and takes it away again, where python3 is new and where it is 3.9."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amdgpu_discovery.simulate import build_host
from install.root import build_root
from install.rpm_root import STAND_IN, RpmRoot, build_rpm, make_repository
from support.installed import engine_program, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install]

CHECKOUT = Path(__file__).resolve().parents[2]
ON_HOST = "AMD_CTK_HOST_ROOT=/host"
FAMILIES = {"": "python3 = 3.12", ".el9": "python3 = 3.9, python3.12 = 3.12"}
DAEMON_JSON = '{"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}, "mtu": 1450}'
SPEC = '{"cdiVersion": "0.5.0", "kind": "example.com/nic", "devices": []}'
ORIGINAL = """Name: amd-container-toolkit
Version: 1.3.0
Release: 1
Summary: Stand-in
License: Apache-2.0
BuildArch: noarch
%description
It behaves like the original: whatever the reason it goes for, it deletes.
%install
mkdir -p %{buildroot}/usr/bin %{buildroot}/usr/share/amd-container-toolkit
touch %{buildroot}/usr/bin/amd-ctk %{buildroot}/usr/bin/amd-container-runtime
touch %{buildroot}/usr/share/amd-container-toolkit/cleanup.sh
%preun
rm -rf /etc/cdi
echo '{"mtu": 1450}' >/etc/docker/daemon.json
%files
/usr/bin/amd-ctk
/usr/bin/amd-container-runtime
/usr/share/amd-container-toolkit/cleanup.sh
"""


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    for program in ("rpmbuild", "dnf", "createrepo_c", "debootstrap", "unshare"):
        engine_program(program)
    directory = tmp_path_factory.mktemp("rpms")
    builder = [sys.executable, CHECKOUT / "packaging/redhat.py", directory]
    answer = subprocess.run(builder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return sorted(directory.glob("*.rpm"))


@pytest.fixture(scope="module")
def with_python(tmp_path_factory):
    """Return the layers of a root file system that has python3."""
    require_root()
    base = build_root("bookworm")
    work = tmp_path_factory.mktemp("python")
    layer = RpmRoot(work, [base], work)
    layer.run("apt-get -qq -y --no-download install python3 && ln -s python3 /usr/bin/python3.12")
    return [layer.upper, base]


@pytest.fixture(params=FAMILIES, ids=["python3", "el9"])
def dist(request):
    return request.param


@pytest.fixture
def root(tmp_path, rpms, with_python, dist):
    repository = tmp_path / "repository"
    repository.mkdir()
    for rpm in rpms:
        if (".el9." in rpm.name) == bool(dist):
            shutil.copy(rpm, repository)
    build_rpm(STAND_IN.format(provides=FAMILIES[dist]), repository)
    make_repository(repository)
    root = RpmRoot(tmp_path / "root", with_python, repository)
    build_host(root.upper / "host", "mi300x-8")
    return root


def files_of(root):
    return set(
        root.run(
            "find /etc /usr /var /opt -not -path /var/cache/\\* -not -path /var/lib/rpm/\\* -not -path /var/log/\\*"
        ).splitlines()
    )


def test_dnf_installs_a_working_product(root):
    root.dnf("install amd-container-toolkit")

    assert root.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")
    assert root.run("amd-gpu-tracker --help").startswith("Usage: amd-gpu-tracker")
    assert root.run("ls /usr/lib/amd-container-toolkit/python/amd_ctk/__pycache__") != ""


def test_removal_leaves_nothing_behind(root):
    before = files_of(root)
    root.dnf("install amd-container-toolkit")
    root.run(f"{ON_HOST} amd-ctk gpu list; amd-ctk config set log-level debug")

    root.dnf(
        "remove amd-container-toolkit amd-container-runtime amd-ctk amd-gpu-tracker amd-device-spec amdgpu-discovery"
    )

    left = {path for path in files_of(root) - before if "/dnf" not in path and "/rpm" not in path}
    assert left == set()


def test_without_a_python_that_is_new_enough_nothing_is_installed(root, tmp_path, dist):
    repository = tmp_path / "repository"
    for rpm in [*repository.rglob("distribution-*.rpm")]:
        rpm.unlink()
    build_rpm(STAND_IN.format(provides="python3 = 3.9"), repository)
    make_repository(repository)

    said = root.dnf("install amd-container-toolkit 2>&1", check=False)

    assert f"nothing provides {'python3.12' if dist else 'python3 >= 3.10'}" in said


def test_an_upgrade_from_the_original_keeps_what_its_own_script_deletes(root, tmp_path):
    build_rpm(ORIGINAL, tmp_path / "original")
    make_repository(tmp_path / "original")
    root.dnf(f"--repofrompath=theirs,{tmp_path}/original install amd-container-toolkit-1.3.0")
    root.write("/etc/docker/daemon.json", DAEMON_JSON)
    root.write("/etc/cdi/nic.json", SPEC)

    root.dnf("upgrade amd-container-toolkit")

    assert "amd-container-toolkit-0:2." in root.dnf("repoquery --installed amd-container-toolkit")
    assert root.run("cat /etc/cdi/nic.json") == SPEC
    assert root.run("cat /etc/docker/daemon.json").replace(', "features": {"cdi": true}', "") == DAEMON_JSON
    assert root.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8")


def test_rpms_and_debs_carry_the_same_files(rpms, debs):
    def normal(paths):
        elsewhere = ("/usr/share/lintian/", "/usr/share/python3/", "/changelog.gz")
        paths = {path.replace("/zsh/site-functions/", "/zsh/vendor-completions/") for path in paths}
        return {path for path in paths if not any(part in path for part in elsewhere)}

    for deb in debs:
        name = deb.name.partition("_")[0]
        rpm = next(rpm for rpm in rpms if rpm.name.startswith(f"{name}-2") and ".el9." not in rpm.name)
        listed = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
        of_deb = {line.split()[5].removeprefix(".") for line in listed.splitlines() if not line.startswith("d")}
        listed = subprocess.run(
            ["rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]", rpm],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        of_rpm = {line.split()[1] for line in listed.splitlines() if not line.startswith("d")}
        assert normal(of_deb) == normal(of_rpm), name
