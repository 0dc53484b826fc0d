"""What is recorded is what is there."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import GpusHidden
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording import record_profile
from amdgpu_discovery.recording.profile import OtherDrm, ProfileError
from amdgpu_discovery.recording.profile_json import format_profile, parse_profile
from amdgpu_discovery.untrusted import plain_json
from amdgpu_simulator import build_host, load_profile, profile_names
from amdgpu_simulator.hosts.build import build_tree
from amdgpu_simulator.random_profile import random_profile

NODES = "/sys/class/kfd/kfd/topology/nodes"


@pytest.mark.parametrize("name", profile_names())
def test_a_recorded_host_is_the_same_to_the_last_file(tmp_path, name):
    host = build_host(tmp_path, name)

    recorded = record_profile(host, name, with_serials=True)

    # Who is not root has built nodes with a group of their own.
    access = load_profile(name).access if os.geteuid() == 0 else recorded.access
    assert build_tree(recorded).entries == build_tree(load_profile(name).replace(access=access)).entries


@pytest.mark.parametrize("name", profile_names())
def test_a_written_profile_reads_as_it_was_recorded(simulated, name):
    recorded = record_profile(simulated(name), name)

    assert parse_profile(plain_json.loads(format_profile(recorded)), name=name, models={}) == recorded


def test_serials_are_replaced_by_made_up_ones(simulated):
    gpus = record_profile(simulated("mi355x-8"), "mine").gpus

    assert [(gpu.pci_unique_id, gpu.kfd_unique_ids, gpu.hive_id) for gpu in gpus[:2]] == [
        (0x5EED000000000001, (0x5EED000000000002,), 0x5EED000000000003),
        (0x5EED000000000004, (0x5EED000000000005,), 0x5EED000000000003),
    ]


def test_no_serial_of_a_host_is_in_its_record(simulated):
    real = load_profile("mi355x-8").gpus
    written = format_profile(record_profile(simulated("mi355x-8"), "mine")).decode()

    ids = [number for gpu in real for number in (gpu.pci_unique_id, *gpu.kfd_unique_ids, gpu.hive_id)]
    assert [number for number in ids if f"{number:x}" in written or str(number) in written] == []


def test_without_serials_everything_else_is_the_same(simulated, tmp_path):
    host = simulated("mi300x-8-cpx")
    gpus = find_gpus(host)

    again = find_gpus(build_host(tmp_path / "again", record_profile(host, "mine"), bare=True))

    nothing = {"kfd_unique_id": 0, "pci_unique_id": 0, "xgmi_hive": None}
    assert [gpu.replace(**nothing) for gpu in again] == [gpu.replace(**nothing) for gpu in gpus]
    # Partitions of one GPU still share an id, and no two GPUs do.
    assert [gpu.kfd_unique_id - 0x5EED000000000000 for gpu in again[6:10]] == [1, 1, 3, 3]


def test_gpus_of_one_kind_that_differ_are_kept_apart(simulated):
    profile = load_profile("mi210-4")
    odd = profile.gpus[2].model
    other = odd.replace(properties={**odd.properties, "fw_version": 93})
    host = simulated(profile.with_gpu(2, model=other))

    document = plain_json.loads(format_profile(record_profile(host, "mine")))

    assert [gpu["model"] for gpu in document["gpus"]] == ["740f", "740f", "740f #2", "740f"]
    assert document["models"]["740f #2"]["properties"]["fw_version"] == 93


def test_the_age_of_a_driver_is_recorded(simulated):
    host = simulated(load_profile("mi210-4").with_driver(absent_properties=("domain", "num_xcc", "unique_id")))

    driver = record_profile(host, "old").driver

    assert driver
    assert driver.absent_properties == ("domain", "unique_id", "num_xcc")


def test_a_property_of_kernels_to_come_is_recorded(simulated):
    host = simulated("one-gpu")
    with open(host.path(f"{NODES}/1/properties"), "ab") as file:
        file.write(b"warp_drives 2\n")

    assert record_profile(host, "new").gpus[0].model.properties["warp_drives"] == 2


def test_values_that_distinguish_boards_of_a_kind_are_not_recorded(simulated):
    host = simulated("one-gpu")
    told = {"serial_number": "PCB0123", "product_name": "Radeon AI PRO R9700", "vbios_version": "113-A"}
    for name, text in told.items():
        with open(host.path(f"/sys/bus/pci/devices/0000:03:00.0/{name}"), "w", encoding="ascii") as file:
            file.write(f"{text}\n")

    model = record_profile(host, "mine", with_serials=True).gpus[0].model

    assert model.product == "Radeon AI PRO R9700"
    assert model.attributes == {"product_name": "Radeon AI PRO R9700", "vbios_version": "113-A"}


def test_a_gpu_without_kfd_is_recorded_last(simulated):
    recorded = record_profile(simulated(load_profile("mi210-4").with_gpu(0, partitions=0)), "mine")

    assert [(gpu.pci_address, gpu.partitions) for gpu in recorded.gpus] == [
        ("0000:43:00.0", None),
        ("0000:03:00.0", None),
        ("0000:26:00.0", None),
        ("0000:63:00.0", 0),
    ]


def test_a_kernel_without_kfd_is_recorded_as_one(simulated):
    recorded = record_profile(simulated(load_profile("one-gpu").with_driver(kfd_major=None)), "mine")

    assert recorded.driver
    assert recorded.driver.kfd_major is None
    assert [(gpu.pci_address, gpu.minors, gpu.partitions) for gpu in recorded.gpus] == [
        ("0000:03:00.0", ((0, 128),), 0)
    ]


@pytest.mark.parametrize(
    "path",
    [
        # virtio-gpu of a virtual machine
        "pci0000:00/0000:00:02.0/virtio0",
        # vgem, of two kernels
        "platform/vgem",
        "faux/vgem",
        # evdi of a docking station, a USB display
        "platform/evdi.0",
        "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0",
        "platform/simple-framebuffer.0",
        # an ARM board
        "platform/soc/fd500000.gpu",
    ],
)
@pytest.mark.parametrize("minors", [(0, 128), (0, None), (63, 191)])
def test_displays_that_are_no_pci_functions_are_recorded(simulated, tmp_path, path, minors):
    display = OtherDrm(path=path, minors=minors, connectors=("Virtual-1",))
    host = simulated(load_profile("mi300x-8").replace(gpus=load_profile("mi300x-8").gpus[:2], others=(display,)))

    recorded = record_profile(host, "mine", with_serials=True)

    assert recorded.others == (display,)
    again = build_host(tmp_path / "again", recorded, bare=True)
    assert os.readlink(again.path(f"/sys/class/drm/card{minors[0]}")) == f"../../devices/{path}/drm/card{minors[0]}"
    assert find_gpus(again) == find_gpus(host)
    assert parse_profile(plain_json.loads(format_profile(recorded)), name="mine", models={}) == recorded


def test_memory_that_nobody_tells_stays_unknown(simulated, tmp_path):
    host = simulated("one-gpu")
    shutil.rmtree(host.path(f"{NODES}/1/mem_banks"))
    os.unlink(host.path("/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total"))

    recorded = record_profile(host, "mine")

    assert (recorded.gpus[0].model.vram_bytes, recorded.gpus[0].partition_bytes) == (None, (None,))
    again = build_host(tmp_path / "again", recorded, bare=True)
    assert [gpu.vram_bytes for gpu in find_gpus(again)] == [None]
    assert parse_profile(plain_json.loads(format_profile(recorded)), name="mine", models={}) == recorded


def test_nodes_of_processors_keep_their_place(simulated, tmp_path):
    profile = load_profile("mi210-4")
    cpus = (profile.cpus[0], profile.cpus[1].replace(node=3), profile.cpus[1].replace(node=5, cores=0))
    host = simulated(profile.replace(cpus=cpus))
    assert [gpu.kfd_node for gpu in find_gpus(host)] == [4, 6, 2, 1]

    recorded = record_profile(host, "mine", with_serials=True)

    assert [(cpu.node, cpu.cores) for cpu in recorded.cpus] == [(None, 64), (3, 64), (5, 0)]
    assert find_gpus(build_host(tmp_path / "again", recorded, bare=True)) == find_gpus(host)


def test_a_gpu_that_came_later_keeps_its_node_behind_a_hole(simulated, tmp_path):
    """KFD gives a GPU that is plugged in later the next number, although a lower one is free."""
    host = simulated(load_profile("rx7900xtx-raphael").with_gpu(1, kfd_nodes=(4,)))
    assert [gpu.kfd_node for gpu in find_gpus(host)] == [1, 4]

    recorded = record_profile(host, "mine", with_serials=True)
    again = build_host(tmp_path / "again", recorded, bare=True)

    assert [gpu.kfd_nodes for gpu in recorded.gpus] == [(1,), (4,)]
    assert find_gpus(again) == find_gpus(host)


@pytest.mark.parametrize("node", [3, 40])
def test_processors_keep_their_node_behind_a_hole(simulated, tmp_path, node):
    host = simulated("rx7900xtx-raphael")
    nodes = Path(host.path("/sys/devices/virtual/kfd/kfd/topology/nodes"))
    (nodes / "0").rename(nodes / str(node))

    again = build_host(tmp_path / "again", record_profile(host, "mine", with_serials=True), bare=True)

    nodes_of = [sorted(each.names("/sys/class/kfd/kfd/topology/nodes")) for each in (again, host)]
    assert nodes_of[0] == nodes_of[1]
    assert find_gpus(again) == find_gpus(host)


@pytest.mark.parametrize("field", ["type", "weight", "node_to"])
def test_a_link_without_a_field_is_not_recorded(tmp_path, field):
    host = build_host(tmp_path / "host", "rx7900xtx-raphael")
    assert record_profile(host, "mine").gpus[0].model.pcie_bandwidth != (0, 0)
    for number in (1, 2):
        links = Path(host.path(f"/sys/devices/virtual/kfd/kfd/topology/nodes/{number}/io_links/0/properties"))
        links.write_text(links.read_text().replace(f"{field} ", f"{field}_of_later_kernels "))

    assert [gpu.model.pcie_bandwidth for gpu in record_profile(host, "mine").gpus] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("nodes", [(-1,), (4096,)])
def test_a_number_that_kfd_cannot_have_is_refused(simulated, nodes):
    with pytest.raises(ProfileError, match="GPUs cannot be KFD nodes"):
        simulated(load_profile("one-gpu").with_gpu(0, kfd_nodes=nodes))


def test_a_size_of_thousands_of_digits_is_none(simulated):
    host = simulated("one-gpu")
    path = "/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/mem_info_vram_total"
    Path(host.path(path)).write_text("9" * 5000 + "\n")

    assert record_profile(host, "mine").gpus[0].model.vram_bytes is None


def test_a_node_that_is_processors_and_a_gpu_keeps_both(simulated, tmp_path):
    """Kernels of the time of Raven Ridge have one node for an APU."""
    profile = load_profile("strix-halo")
    model = profile.gpus[0].model
    old = model.replace(device_id=0x1309, gfx_target_version=0, properties={**model.properties, "cpu_cores_count": 4})
    host = simulated(profile.with_gpu(0, model=old).replace(cpus=()))

    again = build_host(tmp_path / "again", record_profile(host, "mine"), bare=True)

    assert [(gpu.kfd_node, gpu.is_apu) for gpu in find_gpus(again)] == [(0, True)]
    assert find_gpus(again) == find_gpus(host)


def test_a_host_of_which_a_part_is_hidden_is_not_recorded(simulated):
    class Hiding(Host):
        __slots__ = ()

        def read(self, path):
            if path.startswith("/sys/class/kfd/kfd/topology/nodes/4/"):
                raise PermissionError(errno.EPERM, "Operation not permitted", path)
            return super().read(path)

        def read_each(self, paths):
            hidden = PermissionError(errno.EPERM, "Operation not permitted")
            return [hidden if "/topology/nodes/4/" in path else super(Hiding, self).read(path) for path in paths]

    with pytest.raises(GpusHidden, match="1 of 4 GPUs is hidden from this process by its device cgroup"):
        record_profile(Hiding(simulated("mi210-4").root), "mine")


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_any_host_has_the_same_gpus_after_it_was_recorded(random):
    with tempfile.TemporaryDirectory() as directory:
        host = build_host(f"{directory}/host", random_profile(random), bare=True)
        again = build_host(f"{directory}/again", record_profile(host, "again", with_serials=True), bare=True)

        assert find_gpus(again) == find_gpus(host)
