"""Hosts that have GPUs of NVIDIA beside those of AMD: nobody touches the other's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

PCI = "sys/devices/pci0000:f0/0000:f0:01.0"
NVIDIA_SPEC = json.dumps(
    {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/dri/renderD132"}]}}],
    }
)


def add_nvidia(host):
    """Give a host the card of NVIDIA, with its driver's nodes, and the CDI spec of NVIDIA's toolkit."""
    root = Path(host.root)
    for name, text in {"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n"}.items():
        write(root / PCI / name, text)
    for name, minor in {"card5": 5, "renderD132": 132}.items():
        write(root / PCI / f"drm/{name}/dev", f"226:{minor}\n")
        os.symlink("../..", root / PCI / f"drm/{name}/device")
        os.symlink(f"../../../{PCI}/drm/{name}", root / f"sys/class/drm/{name}")
        write(root / f"dev/dri/{name}", "")
    write(root / "etc/cdi/nvidia.json", NVIDIA_SPEC)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def beside(host, amd_ctk):
    """Return what a command prints on four MI210, and what it prints where a card of NVIDIA is there too."""
    made = host()
    before = {}

    def compare(*words):
        before[words] = amd_ctk(*words)
        add_nvidia(made)
        return before[words], amd_ctk(*words)

    return compare


@pytest.mark.parametrize(
    "words",
    [
        ("gpu", "list"),
        ("gpu", "list", "--json"),
        ("cdi", "generate", "--output=-"),
        ("explain", "--json", "-e", "AMD_VISIBLE_DEVICES=all"),
        ("slurm", "gres", "--node=n1"),
    ],
)
def test_a_card_of_nvidia_changes_nothing(beside, words):
    alone, together = beside(*words)

    assert (together.stdout, together.returncode) == (alone.stdout, 0)


def test_a_container_may_have_both(host, amd_ctk):
    add_nvidia(host())
    amd_ctk("cdi", "generate")

    shown = amd_ctk(
        *("explain", "--json", "--", "podman", "run", "--device", "nvidia.com/gpu=0", "--device", "amd.com/gpu=0", "i")
    )

    nodes = [device["path"] for device in json.loads(shown.stdout)["spec"]["linux"]["devices"]]
    assert sorted(nodes) == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/dri/renderD132", "/dev/kfd"]


def test_the_spec_of_nvidia_stays_and_is_not_listed(host, amd_ctk):
    made = host()
    add_nvidia(made)

    amd_ctk("cdi", "generate")
    amd_ctk("cdi", "refresh")
    listed = amd_ctk("cdi", "list").stdout
    amd_ctk("cdi", "remove")

    assert "amd.com/gpu=0" in listed
    assert "nvidia.com" not in listed
    assert os.listdir(made.path("/etc/cdi")) == ["nvidia.json"]
    assert Path(made.path("/etc/cdi/nvidia.json")).read_text() == NVIDIA_SPEC


def test_no_device_is_called_none(host, amd_ctk):
    host()
    amd_ctk("cdi", "generate")

    shown = amd_ctk("explain", "--", "docker", "run", "--device", "amd.com/gpu=none", "i")

    assert shown.returncode == 1
    assert "--device amd.com/gpu=none: no CDI spec of this host has this device" in shown.stdout


def test_doctor_finds_nothing_bad_in_it(host, amd_ctk):
    made = host()
    amd_ctk("cdi", "generate")
    before = states_of(amd_ctk("doctor", "--json").stdout)

    add_nvidia(made)

    assert states_of(amd_ctk("doctor", "--json").stdout) == before


def states_of(printed):
    return {check["id"]: check["state"] for check in json.loads(printed)["checks"]}
