"""A release is built twice, compared, checked and signed in one go."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from install.root import build_root
from install.rpm_root import STAND_IN, RpmRoot, build_rpm, make_repository
from support.installed import require_programs, require_root
from support.system import System

# All packages are built twice; that takes two minutes at rest.
pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.timeout(1800)]

CHECKOUT = Path(__file__).resolve().parents[2]
PORT = 18613
ADDRESS = f"http://127.0.0.1:{PORT}"
SERVER = "python3 -m http.server --bind 127.0.0.1"
# What every system with apt has; users have curl or wget.
FETCH = "/usr/lib/apt/apt-helper -qq download-file"
KEY = "Throw Away <throw-away@container-toolkit.invalid>"


@pytest.fixture(scope="module")
def gpg(tmp_path_factory):
    """Return an environment in which gpg has one key, and rpm knows nobody else's."""
    home = tmp_path_factory.mktemp("gpg")
    environment = {**os.environ, "GNUPGHOME": f"{home}", "HOME": f"{home}"}
    make_key = ["gpg", "--batch", "--passphrase=", "--quick-generate-key", KEY, "rsa3072", "sign"]
    subprocess.run(make_key, env=environment, check=True, capture_output=True)
    yield environment
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=environment, check=True)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout of what is committed."""
    require_programs("dpkg-deb", "lintian", "apt-ftparchive", "rpmbuild", "rpmlint", "rpmsign", "createrepo_c", "gpg")
    directory = tmp_path_factory.mktemp("release") / "checkout"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, directory], check=True)
    return directory


@pytest.fixture
def served(released, tmp_path):
    """Serve the repository on this machine, on the loopback address alone; return its directory."""
    directory = tmp_path / "served"
    shutil.copytree(released / "repository", directory)
    server = subprocess.Popen(
        [*SERVER.split(), str(PORT), "--directory", directory],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait_for_server()
    yield directory
    server.terminate()
    server.wait()


def _wait_for_server():
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
            return
        time.sleep(0.05)
    raise AssertionError("the server does not answer")


@pytest.fixture(scope="module")
def released(checkout, gpg):
    """Return the directory of a release."""
    answer = make_release(checkout, gpg)
    assert answer.returncode == 0, answer.stdout
    return checkout.parent / "dist"


# Builds once what a release builds twice.
NEXT_RELEASE = """
import sys
from pathlib import Path

from debian import build_debs
from redhat import build_rpms
from release import sign_rpms
from repositories import build_repositories

directory = Path(sys.argv[1])
build_debs(directory)
sign_rpms([str(rpm) for rpm in build_rpms(directory)], sys.argv[2])
build_repositories(directory / "repository", directory, key=sys.argv[2], address=sys.argv[3])
"""


@pytest.fixture(scope="module")
def next_repository(checkout, gpg):
    """Return the repository of a release to come: version 9.0 of this checkout."""
    later = checkout.parent / "later"
    subprocess.run(["git", "clone", "--quiet", checkout, later], check=True)
    (later / "VERSION").write_text("9.0\n")
    words = [sys.executable, "-c", NEXT_RELEASE, later / "dist", KEY, ADDRESS]
    answer = subprocess.run(
        words,
        env=gpg,
        cwd=later / "packaging",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
    return later / "dist/repository"


def replace_tree(directory, source):
    """Publish another release in a directory that is served; a server may have it as its working directory."""
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(source, directory, dirs_exist_ok=True)


def make_release(checkout, gpg):
    words = [sys.executable, checkout / "packaging/release.py", checkout.parent / "dist", KEY, ADDRESS]
    return subprocess.run(
        words, env=gpg, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=checkout
    )


def test_a_release_has_every_kind_of_package(released):
    kinds = [path.name.rpartition(".")[2] for path in released.iterdir()]

    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "SHA256SUMS": 1, "asc": 1, "deb": 9, "gz": 8, "json": 2, "repository": 1, "rpm": 27, "whl": 8,
    }  # fmt: skip


def test_the_signature_is_for_every_file(released, gpg):
    subprocess.run(["gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS"], cwd=released, env=gpg, check=True)
    lines = (released / "SHA256SUMS").read_text().splitlines()

    assert {name: digest for digest, name in map(str.split, lines)} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in released.iterdir()
        if path.is_file() and not path.name.startswith("SHA256SUMS")
    }


def test_every_rpm_is_signed_by_the_key(released, gpg, tmp_path):
    key = subprocess.run(["gpg", "--armor", "--export"], env=gpg, capture_output=True, check=True).stdout
    (tmp_path / "key.asc").write_bytes(key)
    database = ["--dbpath", tmp_path / "rpm"]
    rpms = sorted(released.glob("*.rpm"))
    subprocess.run(["rpm", *database, "--import", tmp_path / "key.asc"], check=True)

    checked = subprocess.run(["rpm", *database, "--checksig", *rpms], capture_output=True, text=True, check=True)

    assert checked.stdout == "".join(f"{rpm}: digests signatures OK\n" for rpm in rpms)


def test_a_repository_has_every_deb_and_each_family_its_rpms(released):
    repository = released / "repository"

    listed = {f"{path.relative_to(repository)}" for path in repository.rglob("*") if path.is_file()}

    assert {name for name in listed if name.endswith(".deb")} == {
        f"apt/pool/{path.name}" for path in released.glob("*.deb")
    }
    for family, release in {"fedora": "1", "el10": "1.el10", "el9": "1.el9"}.items():
        expected = {f"rpm/{family}/{path.name}" for path in released.glob(f"*-{release}.noarch.rpm")}
        assert len(expected) == 9
        assert {name for name in listed if name.startswith(f"rpm/{family}/") and name.endswith(".rpm")} == expected
        assert f"rpm/{family}/repodata/repomd.xml.asc" in listed
        assert f"rpm/amd-container-toolkit-{family}.repo" in listed
    assert {"apt/dists/stable/InRelease", "apt/dists/stable/main/binary-amd64/Packages.xz"} <= listed
    assert any("binary-amd64/by-hash/SHA256/" in name for name in listed)
    assert {"amd-container-toolkit.asc", "amd-container-toolkit.sources"} <= listed


def test_packages_name_the_wheels_they_carry(released):
    deb, rpm = next(released.glob("amdgpu-discovery_*.deb")), next(released.glob("amdgpu-discovery-*-1.noarch.rpm"))

    field = subprocess.run(["dpkg-deb", "--field", deb, "Bundled"], capture_output=True, text=True, check=True).stdout
    provided = subprocess.run(["rpm", "-qp", "--provides", rpm], capture_output=True, text=True, check=True).stdout

    carried = {
        "click": "8.1.8",
        "pyudev": "0.24.4",
        "rich": "14.1.0",
        "tomlkit": "0.15.2",
        "typer-slim": "0.21.1",
        "typing-extensions": "4.16.0",
    }
    assert field == f"{', '.join(f'{name} (= {version})' for name, version in carried.items())}\n"
    named = [line for line in provided.splitlines() if line.startswith("bundled")]
    assert named == [f"bundled(python3dist({name})) = {version}" for name, version in carried.items()]


def test_packages_suggest_the_programs_that_some_commands_need(released):
    deb, rpm = next(released.glob("amd-ctk_*.deb")), next(released.glob("amd-ctk-*-1.noarch.rpm"))

    field = subprocess.run(["dpkg-deb", "--field", deb, "Suggests"], capture_output=True, text=True, check=True).stdout
    suggested = subprocess.run(["rpm", "-qp", "--suggests", rpm], capture_output=True, text=True, check=True).stdout

    assert field == "podman, skopeo\n"
    assert suggested.split() == ["podman", "skopeo"]


def test_the_bill_of_materials_lists_the_packages_and_every_wheel_that_packages_carry(released):
    bill = json.loads((released / "amd-container-toolkit.cdx.json").read_text())

    parts = {part["name"]: part for part in bill["components"]}
    carried = {need["ref"]: need.get("dependsOn", []) for need in bill["dependencies"]}
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert sorted(parts) == [
        *("amd-container-runtime", "amd-ctk", "amd-device-spec", "amd-gpu-images", "amd-gpu-sharing"),
        *("amd-gpu-tracker", "amdgpu-discovery", "amdgpu-simulator", "attrs"),
        *("click", "filelock", "jsonschema", "pyrsistent", "pyudev", "rich", "ruamel-yaml", "tomlkit", "typer-slim"),
        "typing-extensions",
    ]
    assert parts["tomlkit"]["purl"] == "pkg:pypi/tomlkit@0.15.2"
    assert parts["tomlkit"]["hashes"][0]["content"].startswith("05562412163a3037b9")
    assert parts["click"]["licenses"] == [{"license": {"name": "BSD License"}}]
    assert carried["amdgpu-discovery"] == ["click", "pyudev", "rich", "tomlkit", "typer-slim", "typing-extensions"]


def test_the_provenance_names_the_commit_and_every_file(released, checkout):
    statement = json.loads((released / "amd-container-toolkit.intoto.json").read_text())

    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True)
    sources = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    own = {"amd-container-toolkit.intoto.json", "SHA256SUMS", "SHA256SUMS.asc", "repository"}
    assert (statement["_type"], sources[0]["digest"]) == (
        "https://in-toto.io/Statement/v1", {"gitCommit": head.stdout.strip()},
    )  # fmt: skip
    assert {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in released.iterdir() if path.name not in own
    }


def test_a_repository_of_a_server_expires_after_thirty_days_and_is_signed_again(released, checkout, gpg, tmp_path):
    repository = shutil.copytree(released / "repository", tmp_path / "repository")
    release = repository / "apt/dists/stable/Release"
    before = read_dates(release)
    # The two are written by two programs, one after the other.
    assert timedelta(0) <= timedelta(days=30) - (before["Valid-Until"] - before["Date"]) < timedelta(minutes=5)

    time.sleep(1.1)
    words = [sys.executable, checkout / "packaging/resign.py", repository, KEY]
    subprocess.run(words, env=gpg, check=True)

    assert read_dates(release)["Valid-Until"] > before["Valid-Until"]
    subprocess.run(["gpg", "--verify", f"{release}.gpg", release], env=gpg, check=True)


def read_dates(release):
    """Return the dates of a Release file."""
    fields = dict(line.split(": ", 1) for line in release.read_text().splitlines() if ": " in line)
    return {name: parsedate_to_datetime(fields[name]) for name in ("Date", "Valid-Until")}


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_apt_installs_and_upgrades_from_what_a_server_serves(released, next_repository, tmp_path, suite):
    require_root()
    machine = System(tmp_path / "system", build_root(suite))
    try:
        shutil.copytree(released / "repository", machine.shared / "served")
        # It listens when it has gone into the background.
        machine.run(f"busybox httpd -p 127.0.0.1:{PORT} -h /run/shared/served")

        machine.run(f"{FETCH} {ADDRESS}/amd-container-toolkit.asc /etc/apt/keyrings/amd-container-toolkit.asc")
        sources = "/etc/apt/sources.list.d/amd-container-toolkit.sources"
        machine.run(f"{FETCH} {ADDRESS}/amd-container-toolkit.sources {sources}")
        only_toolkit = f"-o Dir::Etc::sourcelist={sources} -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0"
        updated = machine.run(f"apt-get {only_toolkit} update")
        assert (f"{ADDRESS}/apt stable InRelease" in updated, "W:" in updated) == (True, False), updated

        machine.run("apt-get -qq -y install amd-container-toolkit")

        assert f"{ADDRESS}/apt stable/main" in machine.run("apt-cache policy amd-container-toolkit")
        assert machine.run("amd-ctk --version").startswith("amd-ctk version 2.")
        replace_tree(machine.shared / "served", next_repository)
        machine.run(f"apt-get -qq {only_toolkit} update && apt-get -qq -y upgrade")
        assert machine.run("amd-ctk --version") == "amd-ctk version 9.0\n"
        assert machine.run("dpkg-query -W -f '${Version} ' 'amd*'") == "9.0 " * 9
        assert machine.run("dpkg --audit") == ""
    finally:
        machine.stop()


@pytest.mark.parametrize(("family", "provides", "interpreter"), [
    ("fedora", "python3 = 3.13", "/usr/bin/python3"),
    ("el10", "python3 = 3.12", "/usr/bin/python3"),
    ("el9", "python3 = 3.9, python3.12 = 3.12", "/usr/bin/python3.12"),
])  # fmt: skip
def test_dnf_installs_and_upgrades_from_what_a_server_serves(
    released, next_repository, tmp_path, served, family, provides, interpreter
):
    definitions = tmp_path / "yum.repos.d"
    definitions.mkdir()
    shutil.copy(released / f"repository/rpm/amd-container-toolkit-{family}.repo", definitions)
    root = RpmRoot(tmp_path / "root", [build_root("bookworm")], tmp_path / "stand-in")
    root.run("apt-get -qq -y --no-download install python3")
    stand_in = STAND_IN.format(version=1, provides=provides, interpreter=interpreter, python="python3.11")
    build_rpm(stand_in, root.repository)
    make_repository(root.repository)
    root.dnf("install distribution")

    root.dnf_from(definitions, "install amd-container-toolkit")

    release = {"fedora": "1", "el10": "1.el10", "el9": "1.el9"}[family]
    assert f"-{release} " in root.dnf_from(definitions, "list --installed amd-container-toolkit")
    assert root.run("amd-ctk --version").startswith("amd-ctk version 2.")
    replace_tree(served, next_repository)

    root.dnf_from(definitions, "--refresh upgrade")

    assert root.run("amd-ctk --version") == "amd-ctk version 9.0\n"
    assert f"9.0-{release} " in root.dnf_from(definitions, "list --installed amd-container-toolkit")


def test_missing_programs_are_named_before_anything_is_built(checkout, gpg, tmp_path):
    (tmp_path / "git").symlink_to(shutil.which("git"))
    words = [sys.executable, checkout / "packaging/release.py", tmp_path / "dist", KEY]

    answer = subprocess.run(words, env={**gpg, "PATH": f"{tmp_path}"}, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "missing: dpkg-deb, lintian, apt-ftparchive, rpmbuild, rpmsign, rpmlint, createrepo_c, gpg;"
        " install with 'apt install apt-utils createrepo-c dpkg gpg lintian rpm rpmlint'\n"
    )
    assert not (tmp_path / "dist").exists()


def test_uncommitted_files_are_not_released(checkout, gpg, released):
    (checkout / "VERSION").write_text("3.0\n")

    answer = make_release(checkout, gpg)

    assert (answer.returncode, answer.stdout) == (1, "not everything is committed:\n M VERSION\n\n")
