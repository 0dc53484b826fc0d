"""Each fault is called bad by its check, and by no other."""

from __future__ import annotations

import json
import os
from itertools import combinations

import pytest

from amd_ctk.cdi.generate_options import GenerateOptions
from amd_ctk.cdi.specs import write_spec
from amd_ctk.doctor.run import DoctorError, check_names, run_checks
from amd_device_spec.cdi import CdiOptions
from amdgpu_discovery.simulate import build_host, load_profile, profile_names

NODE = "/dev/dri/renderD128"
OTHER_KERNEL = "6.12.1-amd64"


def without_driver(machine):
    machine.remove("/sys/module/amdgpu")
    machine.remove("/sys/class/kfd")


def windows(machine):
    machine.write_proc("sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")


def dkms_of_another_kernel(machine):
    without_driver(machine)
    machine.write(f"/var/lib/dkms/amdgpu/6.12.12/{OTHER_KERNEL}/x86_64/log", "")


def secure_boot(machine):
    without_driver(machine)
    machine.write("/var/lib/dkms/amdgpu/6.12.12/6.12.12-amd64/x86_64/log", "")
    machine.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1")


def without_kfd_nodes(machine):
    profile = load_profile("one-gpu").with_every_gpu(partitions=0)
    build_host(machine.host.root, profile, with_links=False)


def broken_gpu(machine):
    path = "/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/mem_info_vram_total"
    machine.remove(path)
    (machine.root / path.lstrip("/")).mkdir()


def missing_node(machine):
    machine.remove(NODE)


def closed_nodes(machine):
    (machine.root / "dev/kfd").chmod(0o600)


def user_namespace(machine):
    machine.write_proc("self/uid_map", "0 100000 65536\n")
    machine.remove("/dev/kfd")


def stale_cdi(machine):
    machine.write("/etc/cdi/amd.json", json.dumps(spec_of(machine, minor=77)))


def two_cdi_specs(machine):
    for name in ("amd.json", "other.json"):
        machine.write(f"/etc/cdi/{name}", json.dumps(spec_of(machine)))


def docker_not_restarted(machine):
    machine.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": "amd-container-runtime"}}}))


def broken_daemon_json(machine):
    machine.write("/etc/docker/daemon.json", '{"runtimes": ')


def runtime_that_is_gone(machine):
    machine.docker["Runtimes"]["amd"] = {}
    path = "/nowhere/amd-container-runtime"
    machine.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": path}}}))


def docker_desktop(machine):
    machine.docker["OperatingSystem"] = "Docker Desktop"


def option_twice(machine):
    machine.write("/etc/docker/daemon.json", json.dumps({"default-runtime": "runc"}))
    unit = "[Service]\nExecStart=/usr/bin/dockerd --default-runtime=runc\n"
    machine.write("/usr/lib/systemd/system/docker.service", unit)


def rootless(machine):
    machine.docker["SecurityOptions"] = ["name=seccomp,profile=builtin", "name=rootless"]


def selinux(machine):
    machine.write("/sys/fs/selinux/enforce", "1")
    machine.write("/sys/fs/selinux/booleans/container_use_devices", "0 0")


def broken_settings(machine):
    machine.write("/etc/amd-container-toolkit/config.toml", 'unknown-gpus = "maybe"\n')


def broken_tracker(machine):
    machine.write("/var/lib/amd-container-toolkit/gpu-tracker.json", "not JSON")


def without_low_level_runtime(machine):
    path = machine.add_program("amd-container-runtime", "exit 0")
    machine.write("/etc/amd-container-toolkit/config.toml", f'low-level-runtime = "{os.path.dirname(path)}/nothing"\n')


def spec_of(machine, *, minor=None):
    """The CDI spec of a host, with another minor number of its first node where one is given."""
    wanted = GenerateOptions(output="/tmp/amd.json", language="json", options=CdiOptions())
    spec, _ = write_spec(machine.host, wanted)
    if minor is not None:
        spec["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] = minor
    return spec


FAULTS = {
    "driver": without_driver,
    "windows": windows,
    "dkms": dkms_of_another_kernel,
    "secure-boot": secure_boot,
    "kfd": without_kfd_nodes,
    "gpu-state": broken_gpu,
    "nodes": missing_node,
    "node-access": closed_nodes,
    "user-namespace": user_namespace,
    "cdi": stale_cdi,
    "cdi-names": two_cdi_specs,
    "docker": docker_not_restarted,
    "docker-file": broken_daemon_json,
    "docker-context": docker_desktop,
    "docker-options": option_twice,
    "rootless": rootless,
    "selinux": selinux,
    "settings": broken_settings,
    "tracker": broken_tracker,
    "low-level-runtime": without_low_level_runtime,
}
# What makes the host another one has to come first, and two of these are one fault.
REBUILDING = ("kfd", "driver", "dkms", "secure-boot")
# One hides what the other is about.
EXCLUSIVE = [
    *combinations(REBUILDING, 2),
    *(("windows", name) for name in ("driver",)),
    *((name, other) for name in REBUILDING for other in ("nodes", "node-access", "user-namespace", "gpu-state")),
    *((name, other) for name in REBUILDING for other in ("cdi", "cdi-names", "rootless", "tracker")),
    *(("nodes", other) for other in ("user-namespace", "cdi", "cdi-names")),
    *(("node-access", other) for other in ("user-namespace",)),
    *(("user-namespace", other) for other in ("cdi", "cdi-names")),
    ("cdi", "cdi-names"),
    *combinations(("docker", "docker-file", "docker-options"), 2),
    ("docker", "docker-context"),
    ("settings", "low-level-runtime"),
    ("windows", "dkms"),
    ("windows", "secure-boot"),
    ("settings", "cdi"),
    ("settings", "cdi-names"),
    ("tracker", "cdi"),
    ("tracker", "cdi-names"),
]
PAIRS = [pair for pair in combinations(FAULTS, 2) if not {pair, pair[::-1]} & set(EXCLUSIVE)]


@pytest.mark.parametrize("profile", [name for name in profile_names() if name != "no-driver"])
def test_a_healthy_host_has_nothing_bad(machine, profile):
    well = machine(profile)

    assert well.bad() == []


@pytest.mark.parametrize("name", FAULTS)
def test_only_its_check_calls_a_fault_bad(machine, name):
    spoilt = machine()
    FAULTS[name](spoilt)

    assert spoilt.bad() == [name]


def test_partitions_without_nodes_are_told_apart(machine):
    spoilt = machine("mi308x-8-cpx")
    spoilt.remove(NODE)

    assert spoilt.bad() == ["partitions"]


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_faults_are_both_found(machine, pair):
    spoilt = machine()
    for name in sorted(pair, key=lambda name: name not in REBUILDING):
        FAULTS[name](spoilt)

    assert set(pair) <= set(spoilt.bad())


@pytest.mark.parametrize(
    ("profile", "check", "words", "fix"),
    [
        (
            "rx7900xtx-raphael",
            "integrated-gpu",
            "GPU 1 is integrated, and part of 'all'",
            "ask for the cards: AMD_VISIBLE_DEVICES=0",
        ),
        ("strix-halo", "apu-memory", "GPU 0 has 512 MiB set aside", ""),
    ],
)
def test_what_is_no_fault_is_a_note(machine, profile, check, words, fix):
    (result,) = machine(profile).examine(only=[check])

    assert (result.finding.state, words in result.finding.words) == ("note", True)
    assert result.finding.fix.startswith(fix)


def test_a_daemon_with_the_runtime_is_well(machine):
    well = machine()
    program = well.add_program("amd-container-runtime", "exit 0")
    well.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": program}}}))
    well.docker["Runtimes"]["amd"] = {}

    states = well.states()

    assert (states["docker"], states["docker-file"]) == ("ok", "ok")


def test_a_runtime_that_daemon_json_names_and_is_gone_is_bad(machine):
    spoilt = machine()
    runtime_that_is_gone(spoilt)

    assert spoilt.bad() == ["docker-file"]


@pytest.mark.parametrize(
    ("version", "states"),
    [
        ("20.10.24", ["note", "note"]),
        ("26.1.5", ["note", "note"]),
        ("28.5.2", ["ok", "note"]),
        ("29.4.0", ["ok", "ok"]),
    ],
)
def test_what_an_engine_can_do_follows_from_its_version(machine, version, states):
    well = machine()
    well.docker["ServerVersion"] = version

    assert [result.finding.state for result in well.examine(only=["docker-cdi", "docker-gpus"])] == states


def test_every_check_has_a_fault_or_is_never_bad():
    never_bad = {"integrated-gpu", "apu-memory", "docker-cdi", "docker-gpus", "sudo"}
    tried_elsewhere = {"partitions", "containers"}
    of_a_container = {name for name in check_names() if name.startswith("inside-")}

    assert set(check_names()) - of_a_container == set(FAULTS) | never_bad | tried_elsewhere


def test_a_check_that_does_not_exist_is_named():
    with pytest.raises(DoctorError, match="there is no check nodez"):
        run_checks(None, only=["nodez"])
