"""amd-ctk gpu list."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from amdgpu_simulator import load_profile

DASHES = "-" * 75


def test_the_table_is_the_originals_padding_included(host, amd_ctk):
    host()

    answer = amd_ctk("gpu", "list")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "Found 4 AMD GPU devices\n"
        f"{DASHES}\n"
        "GPU Id    UUID                     DRM Devices                             \n"
        f"{DASHES}\n"
        "0         0xEA35F57CC80DEB35       /dev/dri/renderD130                     \n"
        "1         0x89CAA15875FF5A43       /dev/dri/renderD131                     \n"
        "2         0x6E32F10EFC982B4C       /dev/dri/renderD129                     \n"
        "3         0x12FE4F7FDAF06B9        /dev/dri/renderD128                     \n"
    )


def test_one_gpu_is_a_device_and_no_id_is_not_available(host, amd_ctk):
    host("strix-halo")

    assert amd_ctk("gpu", "list").stdout == (
        "Found 1 AMD GPU device\n"
        f"{DASHES}\n"
        "GPU Id    UUID                     DRM Devices                             \n"
        f"{DASHES}\n"
        "0         N/A                      /dev/dri/renderD128                     \n"
    )


def test_a_driver_without_gpus_lists_none(host, amd_ctk):
    host(load_profile("one-gpu").replace(gpus=()))

    assert amd_ctk("gpu", "list").stdout == "Found 0 AMD GPU devices\n"
    assert json.loads(amd_ctk("gpu", "list", "--json").stdout) == {
        "gpus": [],
        "hidden": [],
        "unnumbered": [],
        "lost": [],
    }


def test_without_a_driver_the_failure_is_one_sentence(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk("gpu", "list")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "failed to list AMD devices: amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
        " (load it with 'sudo modprobe amdgpu', or install it)\n"
    )


def test_a_gpu_that_cannot_compute_is_reported_beside_the_table(host, amd_ctk):
    host(load_profile("rx7900xtx-raphael").with_gpu(1, partitions=0))

    answer = amd_ctk("gpu", "list")

    assert answer.stdout.startswith("Found 1 AMD GPU device\n")
    assert answer.stderr == (
        "The GPU at 0000:6d:00.0 has no number because the kernel's compute driver (KFD) does not list it\n"
    )


def test_json_has_everything_and_ids_as_words(host, amd_ctk):
    host("one-gpu")

    assert json.loads(amd_ctk("gpu", "list", "--json").stdout) == {
        "gpus": [
            {
                "number": 0,
                "pci_address": "0000:03:00.0",
                "kfd_node": 1,
                "kfd_unique_id": "0xb7054e91d3fa682c",
                "pci_unique_id": "0xb7054e91d3fa682c",
                "partition_rank": 0,
                "partition_total": 1,
                "render_node": {"path": "/dev/dri/renderD128", "major": 226, "minor": 128},
                "card_node": {"path": "/dev/dri/card0", "major": 226, "minor": 0},
                "gpu_id": 31801,
                "gfx_target": "gfx1201",
                "device_id": "0x7551",
                "vram_bytes": 34208743424,
                "numa_node": None,
                "compute_partition": "",
                "memory_partition": "",
                "cu_count": 64,
                "is_apu": False,
                "xgmi_hive": None,
                "model": "GFX1201",
                "product_name": None,
                "uuid": "0xB7054E91D3FA682C",
                "state": "free",
                "state_reason": None,
            }
        ],
        "hidden": [],
        "unnumbered": [],
        "lost": [],
    }


@pytest.mark.parametrize("words", [("gpu", "list"), ("status",), ("gpu-tracker", "status"), ("swarm", "status")])
def test_no_unique_id_is_null_in_every_json(host, amd_ctk, words):
    host("strix-halo")
    assert amd_ctk("gpu-tracker", "enable").returncode == 0

    (gpu,) = json.loads(amd_ctk(*words, "--json").stdout)["gpus"]

    assert gpu["uuid"] is None


def test_ids_that_are_unknown_are_null_in_json(host, amd_ctk):
    host(load_profile("rx7900xtx-raphael").with_gpu(0, partitions=0))

    answer = json.loads(amd_ctk("gpu", "list", "--json").stdout)

    (gpu,) = answer["gpus"]
    assert (gpu["uuid"], gpu["kfd_unique_id"], gpu["pci_unique_id"], gpu["xgmi_hive"]) == (None, None, None, None)
    assert answer["unnumbered"] == [
        {
            "pci_address": "0000:03:00.0",
            "device_id": "0x744c",
            "render_minor": 129,
            "card_minor": 1,
            "reason": "the kernel's compute driver (KFD) does not list it",
        }
    ]


def test_listing_needs_no_device_node(host, amd_ctk):
    shutil.rmtree(host().path("/dev/dri"))

    assert amd_ctk("gpu", "list").returncode == 0


@pytest.mark.parametrize(
    ("driver", "said"), [("vfio-pci", "belongs to the driver vfio-pci, and not to amdgpu"), ("", "has no driver")]
)
def test_gpus_of_other_drivers_are_named_in_a_note(host, amd_ctk, driver, said):
    root = Path(host().root)
    address = min(name for name in os.listdir(root / "sys/module/amdgpu/drivers/pci:amdgpu") if ":" in name)
    (root / "sys/module/amdgpu/drivers/pci:amdgpu" / address).unlink()
    link = root / f"sys/bus/pci/devices/{address}/driver"
    link.unlink(missing_ok=True)
    if driver:
        link.symlink_to(f"../../../bus/pci/drivers/{driver}")

    note = f"Not listed: the GPU at {address} {said}\n"
    assert note in amd_ctk("gpu", "list").stderr
    assert amd_ctk("status").stdout.endswith(f"\n{note}")
