"""amd-ctk doctor --bundle and --replay: a host in one file."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import profile_names

# No engine of this machine is asked.
ALONE = {"PATH": "/nowhere"}


@pytest.fixture
def bundle(tmp_path):
    return tmp_path / "host.tar.xz"


def states(answer):
    assert "Traceback" not in answer.stderr
    checks = json.loads(answer.stdout)["checks"]
    return {check["id"]: (check["state"], check["words"]) for check in checks}


def members_of(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive}


def pack(path, members):
    with tarfile.open(path, "w:xz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.parametrize("profile", [name for name in profile_names() if "63" not in name])
def test_a_host_is_found_in_its_bundle_as_it_was(host, amd_ctk, bundle, profile):
    host(profile)
    amd_ctk("cdi", "generate")

    written = amd_ctk("doctor", "--json", f"--bundle={bundle}", **ALONE)
    replayed = amd_ctk("doctor", "--json", f"--replay={bundle}", **ALONE)

    assert states(replayed) == states(written)
    assert bundle.stat().st_mode & 0o777 == 0o600


def test_a_fault_of_the_host_is_in_its_bundle(host, amd_ctk, bundle):
    root = host()
    amd_ctk("cdi", "generate")
    os.unlink(root.path("/dev/dri/renderD130"))
    os.chmod(root.path("/dev/kfd"), 0o600)
    amd_ctk("doctor", f"--bundle={bundle}", **ALONE)

    # A runc of this machine is found without PATH, if there is one.
    found = states(amd_ctk("doctor", "--json", "--skip=low-level-runtime", f"--replay={bundle}", **ALONE))

    assert sorted(name for name, (state, _) in found.items() if state == "bad") == ["node-access", "nodes"]


@pytest.mark.parametrize(("options", "told"), [((), False), (("--with-serials",), True)])
def test_unique_ids_are_reported_only_if_asked_for(host, amd_ctk, bundle, options, told):
    ids = {f"{gpu.unique_id:x}" for gpu in locate_gpus(host())}
    amd_ctk("cdi", "generate")

    amd_ctk("doctor", f"--bundle={bundle}", *options, **ALONE)

    text = "".join(members_of(bundle).values()).lower()
    assert {unique_id in text for unique_id in ids} == {told}


def test_nothing_secret_is_in_a_bundle(host, amd_ctk, bundle):
    root = Path(host().root)
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/other.json").write_text('{"kind": "example.com/x", "env": ["TOKEN=secret-1"]}')
    (root / "etc/docker").mkdir()
    (root / "etc/docker/daemon.json").write_text('{"proxies": {"http-proxy": "http://me:secret-2@proxy"}}')
    (root / "var/log/amd-container-runtime.log").write_text("time=1 msg=http://me:secret-3@host\n")

    amd_ctk("doctor", f"--bundle={bundle}", SECRET="secret-4", **ALONE)

    members = members_of(bundle)
    assert "secret" not in "".join(members.values())
    assert members["amd-container-runtime.log"] == "time=1 msg=http://***@host\n"


def test_a_large_log_is_cut(host, amd_ctk, bundle):
    log = Path(host().root) / "var/log/amd-container-runtime.log"
    log.write_text("".join(f"line {number}\n" for number in range(100000)))

    amd_ctk("doctor", f"--bundle={bundle}", **ALONE)

    lines = members_of(bundle)["amd-container-runtime.log"].splitlines()
    assert (len(lines), lines[-1]) == (200, "line 99999")


def test_a_link_at_the_place_of_a_bundle_is_not_followed(host, amd_ctk, bundle, tmp_path):
    host()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    bundle.symlink_to(victim)

    amd_ctk("doctor", f"--bundle={bundle}", **ALONE)

    assert victim.read_text() == "precious"
    assert "doctor.json" in members_of(bundle)


def test_a_pipe_is_not_replaced_by_a_bundle(host, amd_ctk, tmp_path):
    host()
    os.mkfifo(tmp_path / "pipe")

    ended = amd_ctk("doctor", f"--bundle={tmp_path}/pipe", **ALONE)

    assert f"the bundle cannot be written: {tmp_path}/pipe is not a file (name a new file)" in ended.stderr
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_behind_sudo_a_bundle_belongs_to_the_user(host, amd_ctk, bundle):
    host()

    amd_ctk("doctor", "--bundle", bundle, SUDO_UID="40001", SUDO_GID="40001")

    assert (bundle.stat().st_uid, bundle.stat().st_mode & 0o777) == (40001, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_does_not_get_the_bundle(host, amd_ctk, bundle):
    host()
    bundle.write_bytes(b"")
    bundle.chmod(0o666)
    os.chown(bundle, 1234, 1234)

    amd_ctk("doctor", f"--bundle={bundle}", **ALONE)

    assert (bundle.stat().st_uid, bundle.stat().st_mode & 0o777) == (0, 0o600)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "the bundle has no facts.json"),
        ({"facts.json": "[]"}, "the bundle's facts.json is not a JSON object"),
        ({"facts.json": "["}, "the bundle's facts.json is not JSON"),
        ({"facts.json": "[" * 100_000}, "the bundle's facts.json is not JSON"),
        ({"facts.json": "{}"}, "cannot be understood: Facts needs kernel"),
        ({"facts.json": '{"kernel": 7}'}, "cannot be understood: KernelFacts is an object, not 7"),
        ({"facts.json": '{"kernel": {"is_windows": 1}}'}, "cannot be understood: is_windows is true or false, not 1"),
        ({"facts.json": '{"stale_containers": [7]}'}, "cannot be understood: StaleContainer is an object, not 7"),
        ({f"files/etc/cdi/{number}.json": "{}" for number in range(100)}, "does not belong there"),
        ({"facts.json": "x" * (2 << 20)}, "does not belong there"),
    ],
)
def test_a_bundle_of_an_enemy_is_refused(host, amd_ctk, bundle, members, words):
    host()
    pack(bundle, members)

    answer = amd_ctk("doctor", f"--replay={bundle}", **ALONE)

    assert (answer.returncode != 0, answer.stdout) == (True, "")
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\xfd7zXZ\0 but not really"])
def test_a_file_that_is_no_bundle_is_refused(host, amd_ctk, bundle, content):
    host()
    bundle.write_bytes(content)

    answer = amd_ctk("doctor", f"--replay={bundle}", **ALONE)

    assert answer.returncode == 2
    assert answer.stderr.startswith(f"{bundle} is not a bundle: ")
