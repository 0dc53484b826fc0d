"""dnf installs the product, upgrades it and takes it away again, where python3 is new and where it is 3.9."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from install import former_state
from install.compiled import compiled_for
from install.container import ITS_NODES, bundle_that_runs
from install.hostile import EVERY_PROGRAM, HOSTILE_DIRECTORY, HOSTILE_ENVIRONMENT
from install.root import build_root, fetch_newer_python
from install.rpm_root import STAND_IN, RpmRoot, build_rpm, build_rpms, make_repository
from install.snapshot import changes, take_snapshot
from support.checked_version import let_check
from support.installed import require_root
from support.upgraded import AFTER, BEFORE, END, WAIT, prepare

pytestmark = [pytest.mark.e2e, pytest.mark.install]

PACKAGES = (
    "amd-container-toolkit amd-container-runtime amd-ctk"
    " amd-gpu-images amd-gpu-sharing amdgpu-simulator amd-gpu-tracker amd-device-spec amdgpu-discovery"
)
CHECKOUT = Path(__file__).resolve().parents[2]
ON_HOST = "AMD_CTK_HOST_ROOT=/host"
# What the distribution provides, and the name of the python that our packages ask for.
FAMILIES = {
    "": ("python3 = 3.11", "/usr/bin/python3"),
    ".el9": ("python3 = 3.9, python3.12 = 3.12", "/usr/bin/python3.12"),
}
DAEMON_JSON = '{"runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}, "mtu": 1450}'
FOREIGN_DAEMON_JSON = '{"log-driver": "journald", "runtimes": {"kata": {"path": "/usr/bin/kata"}}, "mtu": 1450}'
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
def later_rpms(rpms, tmp_path_factory):
    """Return the packages of a release to come: version 9.0 of this checkout."""
    checkout = tmp_path_factory.mktemp("later") / "checkout"
    parts = shutil.ignore_patterns(".nox", ".venv", "dist", "site", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(CHECKOUT, checkout, symlinks=True, ignore=parts)
    (checkout / "VERSION").write_text("9.0\n")
    return build_rpms(checkout, checkout.parent / "rpms")


@pytest.fixture(scope="module")
def checked_rpms(rpms, tmp_path_factory):
    """Return the packages of two versions in which modules check that they are of one version."""
    directory = tmp_path_factory.mktemp("checked")
    return {version: build_checked(directory / version, version) for version in ("9.1", "9.2")}


def build_checked(directory, version):
    parts = shutil.ignore_patterns(".nox", ".venv", "dist", "site", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(CHECKOUT, directory / "checkout", symlinks=True, ignore=parts)
    (directory / "checkout/VERSION").write_text(f"{version}\n")
    let_check((directory / "checkout").glob("packages/*/src/**/*.py"), version)
    return build_rpms(directory / "checkout", directory / "rpms")


@pytest.fixture(scope="module")
def with_pythons(tmp_path_factory):
    """Return the layers of a root file system that has python3.11, which is its python3, and python3.13."""
    require_root()
    base = build_root("bookworm")
    work = tmp_path_factory.mktemp("python")
    layer = RpmRoot(work, [base], work)
    layer.run("apt-get -qq -y --no-download install python3 && mkdir debs")
    for deb in fetch_newer_python("bookworm").iterdir():
        if not deb.name.startswith(("python3_", "python3-minimal_", "libpython3-stdlib_")):
            shutil.copy(deb, layer.upper / "root/debs")
    layer.run("apt-get -qq -y install ./debs/*.deb && rm -r debs")
    return [layer.upper, base]


@pytest.fixture(params=FAMILIES, ids=["python3", "el9"])
def dist(request):
    return request.param


@pytest.fixture
def offer(tmp_path, dist):
    """Return a function that adds rpms of the family under test to the repository."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def offer(*rpms):
        for rpm in rpms:
            if rpm.name.endswith(f"-1{dist}.noarch.rpm"):
                shutil.copy(rpm, repository)
        make_repository(repository)
        return repository

    return offer


@pytest.fixture
def root(tmp_path, rpms, with_pythons, offer):
    repository = offer(*rpms)
    build_host(tmp_path / "root/upper/host", "mi300x-8")
    return RpmRoot(tmp_path / "root", with_pythons, repository)


@pytest.fixture
def distribution(root, dist, offer):
    """Install the stand-in for a distribution, whose python is 3.11; return a function that brings another."""

    def bring(python, *, version):
        provides, interpreter = FAMILIES[dist]
        stand_in = STAND_IN.format(version=version, provides=provides, interpreter=interpreter, python=python)
        build_rpm(stand_in, root.repository)
        offer()
        root.dnf("upgrade distribution" if version > 1 else "install distribution")

    bring("python3.11", version=1)
    return bring


def test_dnf_installs_a_working_product(root, distribution):
    root.dnf("install amd-container-toolkit")

    assert root.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")
    assert root.run("amd-gpu-tracker --help").startswith("Usage: amd-gpu-tracker")
    assert compiled_for(root.run) == {"cpython-311": "all"}


def test_a_container_gets_its_gpus_through_the_installed_runtime(root, distribution):
    root.dnf("install amd-container-toolkit")

    seen = root.run(f"{bundle_that_runs('cd /dev/dri; echo *')}\n{ON_HOST} amd-container-runtime run c1")

    assert seen == ITS_NODES


def test_the_users_directory_and_environment_are_not_imported(root, distribution):
    root.dnf("install amd-container-toolkit")
    root.run(f"{bundle_that_runs('true')}\n{HOSTILE_DIRECTORY}")

    said = root.run(f"cd bundle\n{HOSTILE_ENVIRONMENT}\nexport {ON_HOST}\n{EVERY_PROGRAM}")

    assert "hostile" not in said


def test_removal_leaves_nothing_behind(root, distribution):
    before = take_snapshot(root.run)
    root.dnf("install amd-container-toolkit")
    root.run(f"{ON_HOST} amd-ctk gpu list; amd-ctk config set log-level debug")
    root.run(f"{bundle_that_runs('true')}\n{ON_HOST} amd-container-runtime run c1; rm -r /root/bundle")

    root.dnf(f"remove {PACKAGES}")

    assert changes(before, take_snapshot(root.run)) == {}


def test_removal_takes_out_what_was_installed_and_nothing_else(root, distribution):
    root.dnf("install amd-container-toolkit")
    root.write("/etc/docker/daemon.json", FOREIGN_DAEMON_JSON)
    root.write("/etc/cdi/nic.json", SPEC)
    root.run(f"amd-ctk runtime configure --no-validate; {ON_HOST} amd-ctk cdi generate")
    # As if the GPUs of the simulated host were this system's: its CDI spec, and what tells that amd-ctk wrote it.
    root.run("cp /host/etc/cdi/* /etc/cdi")
    root.run("cp -r /host/var/lib/amd-container-toolkit/cdi /var/lib/amd-container-toolkit")
    assert "amd-container-runtime" in root.run("cat /etc/docker/daemon.json")

    root.dnf(f"remove {PACKAGES}")

    assert root.run("cat /etc/docker/daemon.json") == FOREIGN_DAEMON_JSON
    assert root.run("ls /etc/cdi; cat /etc/cdi/nic.json") == f"nic.json\n{SPEC}"


def test_an_upgrade_changes_nobodys_configuration_and_no_container(root, distribution, offer, later_rpms):
    root.dnf("install amd-container-toolkit")
    root.write("/etc/docker/daemon.json", FOREIGN_DAEMON_JSON)
    root.write("/etc/cdi/nic.json", SPEC)
    root.run(
        f"amd-ctk runtime configure --no-validate; {ON_HOST} amd-gpu-tracker enable; amd-ctk config set log-level debug"
    )
    facts = "sha256sum /etc/docker/* /etc/cdi/* /etc/amd-container-toolkit/* /host/var/lib/*/*.json"
    before = root.run(facts)
    offer(*later_rpms)

    state = root.run_around(
        f"{bundle_that_runs('sleep 1000')}\n{ON_HOST} amd-container-runtime run --detach c1 >/dev/null 2>&1",
        "upgrade",
        "amd-container-runtime state c1 | jq .status; amd-container-runtime delete --force c1",
    )

    assert state.splitlines()[-1] == '"running"'
    assert root.run(facts) == before
    assert root.run("amd-ctk version").startswith("Version: v9.0\n")
    assert compiled_for(root.run) == {"cpython-311": "all"}


def test_no_program_is_of_two_versions_while_dnf_brings_another(root, distribution, offer, checked_rpms):
    share = root.upper / "shared"
    share.mkdir()
    prepare(share)
    for version, rpms in checked_rpms.items():
        offer(*rpms)
        if version == "9.1":
            root.dnf("install amd-container-toolkit")
    places = {"share": "/shared", "taken": 7, "number": 5}

    for words in ("upgrade", f"downgrade {PACKAGES}"):
        before, after = (BEFORE + WAIT).format(**places), (WAIT + END + AFTER).format(**places)
        said = root.run_around(before, words, after)

        seen = json.loads(next(line for line in said.splitlines() if line.startswith('{"done"')))
        assert seen["failures"] == []
        assert seen["done"]["start"] >= 10
        assert "kept" not in said.partition('{"done"')[2]
        # A next pid namespace cannot judge what is left of jobs of this one, unless it happens to get its number.
        root.run(
            "cd /shared; rm stop over seen.json starts; AMD_CTK_HOST_ROOT=/shared/host amd-gpu-tracker reset --force"
        )


CALLS = """#!/bin/sh
echo "$*" >>/root/calls
case $* in *is-active* | *is-failed*) exit 3 ;; *is-enabled*amd-gpu-usage*) exit 1 ;; esac
"""


def test_units_are_preset_and_what_is_enabled_is_started_as_apt_does_it(root, distribution, offer, later_rpms):
    root.dnf("install amd-container-toolkit")
    assert root.run("ls /etc/systemd/system/*.wants | grep amd-") == "amd-cdi-refresh.service\namd-cdi-watch.service\n"

    root.write("/usr/bin/systemctl", CALLS)
    root.run("chmod 755 /usr/bin/systemctl")
    offer(*later_rpms)
    root.run_around("mkdir -p /run/systemd/system", "upgrade", "true")

    calls = root.run("grep -v is- /root/calls").splitlines()
    # Before that, the modules were put together.
    assert calls[-5:] == [
        "daemon-reload",
        "restart amd-cdi-refresh.service",
        "restart amd-cdi-watch.service",
        "start amd-swarm-prune.timer",
        "restart amd-gpu-tracker.socket",
    ]


def test_gpus_that_the_original_made_exclusive_stay_so_whatever_comes_first(root, distribution):
    root.dnf("install amd-container-toolkit")

    assert former_state.look(root.upper / "cells", "/cells", root.run) == former_state.expected()


def test_modules_are_compiled_again_when_python_changes(root, distribution):
    root.dnf("install amd-container-toolkit")
    assert compiled_for(root.run) == {"cpython-311": "all"}

    distribution("python3.13", version=2)

    assert compiled_for(root.run) == {"cpython-313": "all"}
    assert root.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")
    root.dnf(f"remove {PACKAGES}")
    assert root.run("ls -d /usr/lib/amd-container-toolkit", check=False) == (
        "ls: cannot access '/usr/lib/amd-container-toolkit': No such file or directory\n"
    )


def test_without_a_python_that_is_new_enough_nothing_is_installed(root, dist, offer):
    interpreter = "/usr/bin/python3.9"
    too_old = STAND_IN.format(version=1, provides="python3 = 3.9", interpreter=interpreter, python="nowhere")
    build_rpm(too_old, root.repository)
    offer()

    said = root.dnf("install amd-container-toolkit 2>&1", check=False)

    assert f"nothing provides {'python3.12' if dist else 'python3 >= 3.10'}" in said


def test_an_upgrade_from_the_original_keeps_what_its_own_script_deletes(root, distribution, tmp_path):
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


def test_a_part_is_not_installed_beside_the_original_but_in_its_place(root, distribution, tmp_path):
    build_rpm(ORIGINAL, tmp_path / "original")
    make_repository(tmp_path / "original")
    root.dnf(f"--repofrompath=theirs,{tmp_path}/original install amd-container-toolkit-1.3.0")
    root.write("/etc/docker/daemon.json", DAEMON_JSON)

    root.dnf("install amd-ctk")

    assert "amd-container-toolkit-0:2." in root.dnf("repoquery --installed amd-container-toolkit")
    assert root.run("cat /etc/docker/daemon.json").replace(', "features": {"cdi": true}', "") == DAEMON_JSON


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
