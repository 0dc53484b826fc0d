"""Whatever is wrong with a host or a container, its bundle says so elsewhere, word for word."""

from __future__ import annotations

import json
import runpy
import tarfile
from pathlib import Path

import pytest

from amd_ctk.doctor.bundle.read import parse_facts, replay_bundle
from amd_ctk.doctor.bundle.redact import without_credentials
from amd_ctk.doctor.bundle.write import write_bundle
from amd_ctk.doctor.facts.containers import StaleContainer
from amd_ctk.doctor.run import format_results, run_checks
from amd_ctk.engines.engine_address import find_endpoint
from amd_ctk.wrapped import wrap_lines
from amdgpu_discovery.numbering import locate_gpus

HERE = Path(__file__).parent
OF_HOSTS = runpy.run_path(str(HERE / "test_causes.py"))
OF_CONTAINERS = runpy.run_path(str(HERE / "test_inside_causes.py"))
ID = 0x7A1B2C3D4E5F6071
STALE = StaleContainer(container_id="c" * 64, path="/dev/kfd", inside="234:0", outside="235:0")


def judge(machine, tmp_path, **changes):
    """Return what the checks say here, and what they say of the bundle."""
    facts = machine.facts().replace(**changes)
    here = run_checks(facts)
    write_bundle(machine.host, facts, here, str(tmp_path / "bundle.tar.xz"))
    return format_results(here, verbose=True), format_results(
        replay_bundle(str(tmp_path / "bundle.tar.xz")), verbose=True
    )


def broken_by_a_terminal(printed, *of_the_test):
    """Return the lines that a terminal of 80 columns breaks, but for commands, which people copy whole.

    The directories of a test have longer names than those of a host.
    """
    for directory in map(str, of_the_test):
        printed = printed.replace(directory, "")
    lines = wrap_lines(printed, 80).split("\n")
    return [line for line in lines if len(line) > 80 and not line.lstrip().startswith("fix: ")]


@pytest.mark.parametrize("name", OF_HOSTS["FAULTS"])
@pytest.mark.needs("root")
def test_a_fault_of_a_host_is_replayed(machine, tmp_path, name):
    made = machine()
    OF_HOSTS["FAULTS"][name](made)

    here, elsewhere = judge(made, tmp_path)

    assert elsewhere == here
    assert " bad " in here
    assert broken_by_a_terminal(here, made.host.root, tmp_path) == []


@pytest.mark.parametrize("name", [*OF_CONTAINERS["FAULTS"], *OF_CONTAINERS["NOTES"]])
def test_a_fault_of_a_container_is_replayed(machine, tmp_path, name):
    made = machine()
    made.write("/sys/module/amdgpu/version", "6.12.12\n")
    made.inside = {**OF_CONTAINERS["FAULTS"], **OF_CONTAINERS["NOTES"]}[name]

    here, elsewhere = judge(made, tmp_path)

    assert elsewhere == here
    assert name in here
    assert broken_by_a_terminal(here, made.host.root, tmp_path) == []


@pytest.mark.parametrize("stale", [(STALE,), None])
def test_containers_of_before_are_replayed(machine, tmp_path, stale):
    here, elsewhere = judge(machine(), tmp_path, stale_containers=stale)

    assert elsewhere == here


def mangle_a_node(machine):
    machine.write("/sys/class/kfd/kfd/topology/nodes/2/properties", "simd_count x\n")


def mangle_everything(machine):
    machine.remove("/sys/class/kfd/kfd/topology/nodes")
    machine.write("/sys/class/kfd/kfd/topology/nodes/1/properties", f"unique_id {ID}\n\0\n")


@pytest.mark.parametrize("mangle", [mangle_a_node, mangle_everything])
def test_a_host_that_is_not_understood_is_replayed_without_its_unique_ids(machine, tmp_path, mangle):
    made = machine("mi210-4")
    ids = [*(gpu.unique_id for gpu in locate_gpus(made.host)), ID]
    made.write("/var/log/amd-container-runtime.log", "".join(f"GPU-{one:016x} {one}\n" for one in ids[:-1]))
    mangle(made)

    here, elsewhere = judge(made, tmp_path)

    assert elsewhere == here
    with tarfile.open(tmp_path / "bundle.tar.xz") as archive:
        members = {member.name: archive.extractfile(member).read().decode().lower() for member in archive}
    text = "".join(members.values())
    assert [one for one in ids if f"{one:016x}" in text or f"{one:x}" in text or str(one) in text] == []


def test_configurations_that_are_broken_tell_no_secrets(machine, tmp_path):
    made = machine()
    OF_HOSTS["podman_user"](made)
    for path in (
        "/etc/containers/containers.conf",
        "/etc/containerd/config.toml",
        "/etc/slurm/gres.conf",
        "/etc/slurm/oci.conf",
        "/etc/docker/daemon.json",
        "/var/lib/dpkg/status",
        "/etc/apt/sources.list.d/amd.list",
        "/etc/cdi/amd.json",
    ):
        made.write(
            path, '[engine]\nenv = ["TOKEN=secret-1"]\nName=secret-2 = secret-3\nhttps://secret-4@radeon.com/ noble\n'
        )

    here, elsewhere = judge(made, tmp_path)

    assert elsewhere == here
    with tarfile.open(tmp_path / "bundle.tar.xz") as archive:
        assert "secret" not in "".join(archive.extractfile(member).read().decode() for member in archive)


def test_a_field_of_a_later_version_is_left_out(machine, tmp_path):
    made = machine()
    facts = made.facts()
    write_bundle(made.host, facts, [], str(tmp_path / "b.tar.xz"))
    with tarfile.open(tmp_path / "b.tar.xz") as archive:
        document = json.loads(archive.extractfile("facts.json").read())
    document["kernel"]["of_later"] = [1]

    assert parse_facts(document).kernel == facts.kernel


BROKEN_FILES = runpy.run_path(str(HERE / "test_broken_files.py"))
CANARY = "canary-7f3a"
SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "amd.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": [f"TOKEN={CANARY}"]}}],
    "annotations": {"note": CANARY},
    "containerEdits": {
        "env": [f"PASSWORD={CANARY}={CANARY}"],
        "hooks": [{"hookName": "poststop", "path": "/bin/true", "env": [f"KEY={CANARY}"]}],
    },
}
# What each language lets stand beside what the toolkit looks for.
ADDED = {
    ".json": lambda text: json.dumps({**json.loads(text or "{}"), "canary": CANARY, "env": [f"A={CANARY}"]}),
    ".yaml": lambda text: f"# {CANARY}\n{text}canary: {CANARY}\n",
    ".toml": lambda text: f'# {CANARY}\n{text}canary = "{CANARY}"\nenv = ["A={CANARY}"]\n[t]\npassword = "{CANARY}"\n',
}


def with_canary(path, text):
    suffix = Path(path).suffix
    known = ADDED.get(suffix) or (ADDED[".json"] if text.startswith("{") else None)
    return (
        known(text)
        if known
        else f"# {CANARY}\nPassword={CANARY}\n{text}https://me:{CANARY}@radeon.com/{CANARY} noble\n"
    )


@pytest.mark.parametrize(
    "spoil", [with_canary, lambda _, text: f"{text}\n{CANARY} [ {{ {CANARY}\n"], ids=["well", "broken"]
)
def test_no_secret_of_any_file_that_doctor_reads_is_in_a_bundle(machine, tmp_path, spoil):
    made = machine()
    made.add_program("podman", "exit 1")
    made.user = BROKEN_FILES["USER"]
    for path, text in BROKEN_FILES["FILES"].items():
        made.write(path, spoil(path, text))
    made.write("/etc/cdi/amd.json", json.dumps(SPEC))
    made.write("/run/cdi/amd.json", json.dumps(SPEC))
    made.write("/etc/cdi/of-amd.com.gpu.yaml", f"kind: example.com/x\nnote: amd.com/gpu {CANARY}\n")

    write_bundle(made.host, made.facts(), run_checks(made.facts()), str(tmp_path / "bundle.tar.xz"))

    with tarfile.open(tmp_path / "bundle.tar.xz") as archive:
        members = {member.name: archive.extractfile(member).read().decode() for member in archive}
    assert [name for name, text in members.items() if CANARY in text] == []
    assert '"TOKEN=***"' in members["files/etc/cdi/amd.json"]


@pytest.mark.parametrize(
    "address",
    [
        "http://me:{}@proxy:80",
        "http://me:p@{}@proxy",
        "tcp://me:a/{}@10.0.0.1:2375",
        "http://{}@host/x@y",
        "x://a/b:{}@c",
    ],
)
def test_a_password_ends_at_the_last_at_sign(address):
    assert CANARY not in without_credentials(f'msg="{address.format(CANARY)}" end')
    assert without_credentials("see https://github.com/moby/moby and x") == "see https://github.com/moby/moby and x"


@pytest.mark.parametrize(
    "address", ["tcp://me:{}@10.0.0.1:2375", "ssh://me:a/{}@10.0.0.1", "tcp://me:p@{}@10.0.0.1:2375/x"]
)
def test_the_address_of_an_engine_is_told_without_its_user(monkeypatch, address):
    monkeypatch.setenv("DOCKER_HOST", address.format(CANARY))

    endpoint = find_endpoint()

    assert (CANARY in endpoint.address, endpoint.is_other_machine) == (False, True)
    assert "10.0.0.1" in endpoint.address
