"""A release is built twice, compared, checked and signed in one go."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.installed import engine_program

pytestmark = [pytest.mark.e2e, pytest.mark.install]

CHECKOUT = Path(__file__).resolve().parents[2]
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
    for program in ("dpkg-deb", "lintian", "rpmbuild", "rpmlint", "rpmsign", "gpg"):
        engine_program(program)
    directory = tmp_path_factory.mktemp("release") / "checkout"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, directory], check=True)
    return directory


@pytest.fixture(scope="module")
def released(checkout, gpg):
    """Return the directory of a release."""
    answer = make_release(checkout, gpg)
    assert answer.returncode == 0, answer.stdout
    return checkout.parent / "dist"


def make_release(checkout, gpg):
    words = [sys.executable, checkout / "packaging/release.py", checkout.parent / "dist", KEY]
    return subprocess.run(
        words, env=gpg, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=checkout
    )


def test_a_release_has_every_kind_of_package(released):
    kinds = [path.name.rpartition(".")[2] for path in released.iterdir()]

    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "SHA256SUMS": 1, "asc": 1, "deb": 6, "gz": 5, "rpm": 12, "whl": 5,
    }  # fmt: skip


def test_the_signature_is_for_every_file(released, gpg):
    subprocess.run(["gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS"], cwd=released, env=gpg, check=True)
    lines = (released / "SHA256SUMS").read_text().splitlines()

    assert {name: digest for digest, name in map(str.split, lines)} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in released.iterdir()
        if not path.name.startswith("SHA256SUMS")
    }


def test_every_rpm_is_signed_by_the_key(released, gpg, tmp_path):
    key = subprocess.run(["gpg", "--armor", "--export"], env=gpg, capture_output=True, check=True).stdout
    (tmp_path / "key.asc").write_bytes(key)
    database = ["--dbpath", tmp_path / "rpm"]
    rpms = sorted(released.glob("*.rpm"))
    subprocess.run(["rpm", *database, "--import", tmp_path / "key.asc"], check=True)

    checked = subprocess.run(["rpm", *database, "--checksig", *rpms], capture_output=True, text=True, check=True)

    assert checked.stdout == "".join(f"{rpm}: digests signatures OK\n" for rpm in rpms)


def test_what_is_not_committed_is_not_released(checkout, gpg, released):
    (checkout / "VERSION").write_text("3.0\n")

    answer = make_release(checkout, gpg)

    assert (answer.returncode, answer.stdout) == (1, "not everything is committed:\n M VERSION\n\n")
