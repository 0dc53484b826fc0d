"""What `nox -s hardware` asks a machine with GPUs; containers are made without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from amdgpu_discovery import find_gpus
from amdgpu_discovery.simulate import build_host
from hardware.conftest import REPORT
from support.installed import our_program
from support.seen import parse_seen

# Not of the gate: it would test the machine that it runs on.
pytestmark = [pytest.mark.e2e, pytest.mark.hardware]

COMPUTE = "import torch; x = torch.ones(512, 512, device='cuda'); print(int((x @ x).sum().item()))"


def run(*words, **environment):
    """Run a program of this machine; return its output."""
    ended = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def rocm(name):
    """Return where a program of ROCm is; skip the test where there is none."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:/opt/rocm/bin")
    return program or pytest.skip(f"{name} is not installed")


def test_a_profile_without_serials_builds_the_same_list(gpus, tmp_path):
    REPORT.mkdir(parents=True, exist_ok=True)
    run(our_python(), "-m", "amdgpu_discovery.simulate", "record", REPORT / "profile.json")
    text = (REPORT / "profile.json").read_text()

    copy = build_host(tmp_path / "copy", str((REPORT / "profile.json").absolute()))

    assert [gpu.render_path for gpu in find_gpus(copy)] == [gpu.render_path for gpu in gpus]
    assert [gpu.number for gpu in gpus if gpu.pci_unique_id and f"{gpu.pci_unique_id:x}" in text.lower()] == []


def our_python():
    return our_program("python")


def test_rocminfo_lists_the_same_gpus(gpus):
    listed = re.findall(r"Uuid:\s+GPU-([0-9a-f]{16})", run(rocm("rocminfo")))

    assert sorted(listed) == sorted(f"{gpu.kfd_unique_id:016x}" for gpu in gpus if gpu.kfd_unique_id)


def test_rocm_smi_lists_the_same_gpus(gpus):
    cards = json.loads(run(rocm("rocm-smi"), "--showuniqueid", "--json"))

    listed = {int(card["Unique ID"], 16) for card in cards.values() if card.get("Unique ID", "N/A") != "N/A"}
    assert listed == {gpu.pci_unique_id for gpu in gpus if gpu.pci_unique_id}


def forms(gpus):
    """Return every form of a request for the first GPU, and of one for all."""
    first, last = gpus[0], gpus[-1]
    whole = len({gpu.pci_address for gpu in gpus}) == len(gpus)
    # Both mean all partitions of a GPU that is partitioned.
    one = [str(first.pci_address), f"0x{first.pci_unique_id:x}" if first.pci_unique_id else ""] if whole else []
    single = [(form, [first]) for form in (str(first.number), *one) if form]
    return [*single, ("all", gpus), (f"{first.number}-{last.number}", gpus)]


def test_every_form_of_a_request_gives_these_gpus_and_no_other(runtime, gpus):
    for count, (form, wanted) in enumerate(forms(gpus)):
        seen = parse_seen(runtime.run(form, "list-gpus", name=f"c1-{count}"))

        renders = {node.path for node in seen if "render" in node.path}
        assert renders == {gpu.render_path for gpu in wanted}, form
        assert {node.access for node in seen} == {"opens"}, form


def test_a_user_opens_the_gpus_of_a_container(runtime, gpus):
    assert {node.access for node in parse_seen(runtime.run("all", "list-gpus", user=1000))} == {"opens"}


def test_the_device_cgroup_refuses_every_other_gpu(runtime, gpus):
    if len(gpus) == 1:
        pytest.skip("this host has one GPU")
    other = f"226:{gpus[-1].render_minor}"

    (seen,) = parse_seen(runtime.run(str(gpus[0].number), "try-numbers", other))

    assert seen.access == "refused-by-cgroup"


def test_a_container_with_a_user_namespace_opens_its_gpus(runtime, gpus):
    mappings = [{"containerID": 0, "hostID": 100_000, "size": 65_536}]
    spaces = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount", "user")]

    seen = runtime.run("all", "list-gpus", namespaces=spaces, uidMappings=mappings, gidMappings=mappings)

    assert {node.access for node in parse_seen(seen)} == {"opens"}


def test_cdi_describes_this_host(gpus, tmp_path):
    spec = tmp_path / "amd.json"
    spec.write_text(run(our_program("amd-ctk"), "cdi", "generate", "--output=-"))

    devices = [device["name"] for device in json.loads(spec.read_text())["devices"]]

    assert [str(gpu.number) for gpu in gpus if str(gpu.number) not in devices] == []


def test_the_tracker_answers_for_every_gpu(gpus):
    status = json.loads(run(our_program("amd-ctk"), "gpu-tracker", "status", "--json"))

    assert len(status["gpus"]) in (0, len(gpus))


def test_doctor_finds_nothing_bad_in_driver_and_gpus(gpus):
    said = run(our_program("amd-ctk"), "doctor", "--only=driver,kfd,gpu-state")

    assert re.findall(r"(?m)^\S+ +bad", said) == []


def test_a_container_computes(gpus):
    image = os.environ.get("AMD_HARDWARE_IMAGE") or pytest.skip("AMD_HARDWARE_IMAGE names no image with PyTorch")

    computed = run(
        "docker", "run", "--rm", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0", image, "python3", "-c", COMPUTE
    )

    assert computed.split()[-1] == str(512**3)
