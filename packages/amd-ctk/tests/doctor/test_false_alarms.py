"""What keeps no container from its GPUs is not called bad, and a fix is a fix of what is named."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from amd_ctk.cdi.generate_options import GenerateOptions
from amd_ctk.cdi.specs import FoundGpus, write_spec
from amd_ctk.doctor.facts.gpus import GpuFacts
from amd_ctk.doctor.run import run_checks
from amd_device_spec.cdi.spec import CdiOptions
from amdgpu_simulator import build_host, load_profile

FAULTS = runpy.run_path(str(Path(__file__).parent / "test_causes.py"))["FAULTS"]
UNREADABLE = "cdiVersion: [\n"
OF_ANOTHER_KIND = json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": 7}]})
OF_OUR_KIND = json.dumps({"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "devices": [{"name": 7}]})


def finding_of(machine, check):
    (result,) = machine.examine(only=[check])
    return result.finding.state, result.finding.words, result.finding.fix


def write_true_spec(machine):
    write_spec(
        FoundGpus(machine.host), GenerateOptions(output="/etc/cdi/amd.json", language="json", options=CdiOptions())
    )


def keep_from_kfd(machine, profile, *numbers):
    """Have a host of which KFD lists all GPUs but these."""
    made = load_profile(profile)
    gpus = [gpu.replace(partitions=0) if place in numbers else gpu for place, gpu in enumerate(made.gpus)]
    build_host(machine.host.root, made.replace(gpus=tuple(gpus)), bare=True)


@pytest.mark.parametrize("content", [UNREADABLE, OF_ANOTHER_KIND])
def test_a_broken_spec_of_another_vendor_is_a_note_beside_a_true_one(machine, content):
    made = machine()
    write_true_spec(made)
    made.write("/etc/cdi/nvidia.yaml", content)

    state, words, fix = finding_of(made, "cdi")

    assert (state, fix) == ("note", "correct or move /etc/cdi/nvidia.yaml")
    assert words.startswith("/etc/cdi/amd.json matches this host; engines ignore /etc/cdi/nvidia.yaml: ")


def test_a_broken_spec_of_another_vendor_hides_no_fault(machine):
    made = machine()
    FAULTS["cdi"](made)
    made.write("/etc/cdi/nvidia.yaml", UNREADABLE)

    state, _, fix = finding_of(made, "cdi")

    assert (state, fix) == ("bad", "sudo amd-ctk cdi generate")


@pytest.mark.parametrize(
    ("path", "content", "moved"),
    [
        ("/etc/cdi/amd.json", UNREADABLE, "/etc/cdi/amd.json /etc/cdi/amd.json.off"),
        ("/etc/cdi/amd.yaml", UNREADABLE, "/etc/cdi/amd.yaml /etc/cdi/amd.yaml.off"),
        ("/run/cdi/my gpu.json", OF_OUR_KIND, "'/run/cdi/my gpu.json' '/run/cdi/my gpu.json.off'"),
    ],
)
def test_a_broken_spec_for_amd_gpus_is_bad(machine, path, content, moved):
    made = machine()
    made.write(path, content)

    assert finding_of(made, "cdi")[::2] == ("bad", f"sudo mv {moved} && sudo amd-ctk cdi generate")


def test_of_two_specs_with_one_name_the_toolkits_own_stays(machine):
    made = machine()
    FAULTS["cdi-names"](made)

    assert finding_of(made, "cdi-names")[::2] == ("bad", "sudo mv /etc/cdi/other.json /etc/cdi/other.json.off")
    (made.root / "etc/cdi/other.json").rename(made.root / "etc/cdi/other.json.off")
    assert finding_of(made, "cdi-names")[0] == "ok"


def test_selinux_is_a_note_where_no_engine_sets_labels(machine):
    made = machine()
    FAULTS["selinux"](made)
    made.docker["SecurityOptions"] = ["name=seccomp,profile=builtin"]

    assert finding_of(made, "selinux") == (
        "note",
        "SELinux denies containers with a label access to devices, but no engine here seems to set one",
        "sudo setsebool -P container_use_devices on",
    )


def test_selinux_is_bad_where_podman_sets_labels(machine):
    made = machine()
    FAULTS["selinux"](made)
    made.docker["SecurityOptions"] = []
    made.add_program("podman", "exit 1")

    assert finding_of(made, "selinux")[0] == "bad"


@pytest.mark.parametrize(
    ("profile", "lost", "state"),
    [
        # Another of the same kind is listed.
        ("mi210-4", 2, "bad"),
        # All that is listed is integrated.
        ("rx7900xtx-raphael", 0, "bad"),
        # The integrated GPU itself.
        ("rx7900xtx-raphael", 1, "note"),
    ],
)
def test_a_card_that_kfd_has_lost_is_bad(machine, profile, lost, state):
    made = machine(profile)
    keep_from_kfd(made, profile, lost)
    address = load_profile(profile).gpus[lost].pci_address

    fix = "sudo dmesg | grep -iE 'kfd|atomic'" if state == "bad" else ""
    assert finding_of(made, "kfd") == (state, f"KFD does not list the GPU at {address}", fix)


def test_kfd_that_is_not_understood_is_looked_up_in_the_log(machine):
    facts = machine().facts().replace(gpus=GpuFacts(problem="nodes/1/properties cannot be read: Input/output error"))

    (result,) = run_checks(facts, only=["kfd"])

    assert (result.finding.state, result.finding.fix) == (
        "bad",
        "sudo dmesg | grep -iE 'kfd|amdgpu', then load the driver again or reboot",
    )


def test_the_memory_of_an_integrated_gpu_beside_a_card_is_not_spoken_of(machine):
    assert machine("rx7900xtx-raphael").examine(only=["apu-memory"]) == []


@pytest.mark.parametrize(
    ("check", "path", "fix"),
    [
        ("podman-file", "/home/u1/.config/containers/containers.conf", "and try it with: podman info"),
        ("containerd", "/etc/containerd/config.toml", "and try it with: containerd config dump"),
    ],
)
def test_a_broken_file_is_named_with_what_judges_it(machine, check, path, fix):
    made = machine()
    FAULTS[check](made)

    assert finding_of(made, check)[::2] == ("bad", f"correct {path}, {fix}")


def test_settings_of_podman_are_read_where_its_user_has_them(machine):
    made = machine()
    FAULTS["podman-file"](made)
    made.write("/settings/containers/containers.conf", "")
    made.user = made.user.replace(chosen_settings="/settings")

    assert finding_of(made, "podman-file")[0] != "bad"


def test_a_long_file_of_the_docker_daemon_is_read(machine):
    made = machine()
    made.write("/etc/docker/daemon.json", json.dumps({"insecure-registries": ["10.0.0.0/24"] * 20_000}))

    assert made.examine(only=["docker-file"]) == []
