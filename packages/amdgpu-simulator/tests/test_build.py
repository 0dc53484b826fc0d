"""Building a host: what stands where, and which directories are left alone."""

from __future__ import annotations

import os
import stat

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.health.reading import read_health
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording.profile import ProfileError
from amdgpu_simulator import build_host, load_profile, profile_names
from amdgpu_simulator.hosts.build import BuildError

GPU = "/sys/devices/pci0000:60/0000:60:01.1/0000:63:00.0"
XCP = "/sys/devices/platform/amdgpu_xcp_0"
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def read(host: Host, path: str) -> str:
    return host.read(path).decode()


def test_sysfs_has_links_where_the_kernel_has_them(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")

    paths = [
        "/sys/module/amdgpu/drivers/pci:amdgpu",
        "/sys/bus/pci/drivers/amdgpu/0000:63:00.0",
        "/sys/bus/pci/devices/0000:63:00.0",
        "/sys/class/drm/renderD128",
        "/sys/class/kfd/kfd",
        "/sys/dev/char/226:128",
        f"{GPU}/driver",
        f"{GPU}/drm/renderD128/device",
        f"{GPU}/drm/controlD65",
        "/dev/dri/by-path/pci-0000:63:00.0-render",
    ]
    assert {path: host.link(path) for path in paths} == {
        "/sys/module/amdgpu/drivers/pci:amdgpu": "../../../bus/pci/drivers/amdgpu",
        "/sys/bus/pci/drivers/amdgpu/0000:63:00.0": f"../../../..{GPU.removeprefix('/sys')}",
        "/sys/bus/pci/devices/0000:63:00.0": f"../../..{GPU.removeprefix('/sys')}",
        "/sys/class/drm/renderD128": f"../..{GPU.removeprefix('/sys')}/drm/renderD128",
        "/sys/class/kfd/kfd": "../../devices/virtual/kfd/kfd",
        "/sys/dev/char/226:128": f"../..{GPU.removeprefix('/sys')}/drm/renderD128",
        f"{GPU}/driver": "../../../../bus/pci/drivers/amdgpu",
        f"{GPU}/drm/renderD128/device": "../../../0000:63:00.0",
        f"{GPU}/drm/controlD65": "card1",
        "/dev/dri/by-path/pci-0000:63:00.0-render": "../renderD128",
    }


@pytest.mark.parametrize("profile", ["mi300a-4", "mi300x-8", "rx7900xtx-raphael", "no-driver"])
def test_every_link_leads_somewhere_on_the_host(tmp_path, profile):
    host = build_host(tmp_path / "host", profile, bare=True)

    links = [path for path in (tmp_path / "host").rglob("*") if path.is_symlink()]
    assert len(links) > 5
    assert [path for path in links if not path.resolve().is_relative_to(host.root) or not path.exists()] == []


def test_a_host_can_be_moved(tmp_path):
    gpus = find_gpus(build_host(tmp_path / "host", "mi300a-4"))

    os.rename(tmp_path / "host", tmp_path / "moved")

    assert find_gpus(Host(tmp_path / "moved")) == gpus


def test_a_pci_function_has_the_attributes_of_its_driver(tmp_path):
    host = build_host(tmp_path / "host", "mi300x-8", bare=True)

    names = sorted(host.names("/sys/bus/pci/devices/0000:05:00.0/"))

    resource = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
    texts = [name for name in names if name != "config"]
    assert {name: host.read_attribute(f"/sys/bus/pci/devices/0000:05:00.0/{name}") for name in texts} == {
        "available_compute_partition": "SPX, DPX, QPX, CPX",
        "class": "0x120000",
        "current_compute_partition": "SPX",
        "current_memory_partition": "NPS1",
        "device": "0x74a1",
        "driver": "",
        "drm": "",
        "irq": "0",
        "mem_info_vram_total": "206141652992",
        "numa_node": "0",
        "resource": "\n".join([resource] * 13),
        "revision": "0x00",
        "subsystem": "",
        "subsystem_device": "0x74a1",
        "subsystem_vendor": "0x1002",
        "uevent": (
            "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SUBSYS_ID=1002:74A1\nPCI_SLOT_NAME=0000:05:00.0"
        ),
        "unique_id": "e3aa140f9a5f9e31",
        "vbios_version": "113-SIMULATED-001",
        "vendor": "0x1002",
    }


def test_every_gpu_is_an_idle_one_unless_the_profile_says_otherwise(tmp_path):
    ill = {"gpu_busy_percent": "97", "ras/umc_err_count": "ue: 1"}
    host = build_host(tmp_path / "host", load_profile("rx7900xtx-raphael").with_gpu(1, health=ill))

    health = read_health(host, ["0000:03:00.0", "0000:6d:00.0"])
    measured = {address: each.measured for address, each in health.items()}
    assert [
        (each.busy_percent, each.vram_used, each.temperature, each.watts, each.watts_limit)
        for each in measured.values()
    ] == [
        (0, 28311552, 45.0, 17.0, 339.0),
        (97, 22020096, 39.0, 11.0, None),
    ]
    assert read(host, "/sys/class/hwmon/hwmon0/fan1_input") == "0\n"
    assert os.readlink(host.path("/sys/class/hwmon/hwmon1/device")) == "../../../0000:6d:00.0"
    assert read(host, "/sys/class/drm/card1/device/pp_dpm_sclk") == "0: 42Mhz *\n1: 2526Mhz\n"


SHOWN = {
    "mem_info_vram_used",
    "gpu_busy_percent",
    "hwmon/name",
    "hwmon/power1_label",
    "hwmon/freq1_input",
    "pp_dpm_sclk",
}


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "mi300x-vf"])
def test_gpus_of_every_profile_have_idle_values(name):
    models = {gpu.model.product: SHOWN - gpu.model.idle.keys() for gpu in load_profile(name).gpus}

    assert [product for product, missing in models.items() if missing] == []


def test_a_virtual_function_has_memory_and_no_sensors(tmp_path):
    host = build_host(tmp_path / "host", "mi300x-vf")

    measured = read_health(host, ["0000:83:00.0"])["0000:83:00.0"].measured

    assert (measured.vram_used, measured.busy_percent, measured.temperature) == (296747008, None, None)
    assert not os.path.exists(host.path("/sys/class/hwmon"))


def test_a_profile_with_sensors_of_its_own_has_no_others(tmp_path):
    own = {"hwmon/hwmon5/name": "amdgpu", "hwmon/hwmon5/temp1_label": "edge", "hwmon/hwmon5/temp1_input": "50000"}
    host = build_host(tmp_path / "host", load_profile("one-gpu").with_gpu(0, health=own))

    assert host.names("/sys/bus/pci/devices/0000:03:00.0/hwmon") == ["hwmon5"]
    assert host.names("/sys/class/hwmon") == ["hwmon5"]


def test_a_function_has_the_configuration_that_its_files_describe(tmp_path):
    host = build_host(tmp_path / "host", "one-gpu")

    with open(host.path("/sys/bus/pci/devices/0000:03:00.0/config"), "rb") as file:
        assert file.read().hex(" ", 4) == (
            "02105175 06000000 c0000003 00000000 00000000 00000000 00000000 00000000 "
            "00000000 00000000 00000000 02100106 00000000 00000000 00000000 00000000"
        )


def test_a_number_behind_a_dot_is_not_in_the_name_of_a_partitions_driver(tmp_path):
    host = build_host(tmp_path / "host", "mi300a-4")

    assert read(host, "/sys/devices/platform/amdgpu_xcp.0/uevent") == "MODALIAS=platform:amdgpu_xcp\n"


def test_a_partition_has_a_platform_device_without_the_attributes_of_the_function(tmp_path):
    host = build_host(tmp_path / "host", "mi300x-8", bare=True)

    assert sorted(host.names(XCP)) == ["driver_override", "drm", "modalias", "subsystem", "uevent"]
    assert sorted(host.names(f"{XCP}/drm")) == ["card2", "controlD66", "renderD129"]
    assert sorted(host.names(f"{XCP}/drm/renderD129")) == ["dev", "device", "subsystem", "uevent"]


def test_the_driver_lists_its_functions_among_the_files_it_is_steered_by(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")

    assert sorted(host.names("/sys/module/amdgpu/drivers/pci:amdgpu")) == [
        *("0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"),
        *("bind", "module", "new_id", "remove_id", "uevent", "unbind"),
    ]
    assert read(host, "/sys/module/amdgpu/version") == "6.10.5\n"


def test_connectors_stand_beside_cards_in_the_class(tmp_path):
    host = build_host(tmp_path / "host", "one-gpu")

    assert sorted(host.names("/sys/class/drm")) == [
        *("card0", "card0-DP-1", "card0-DP-2", "card0-DP-3", "card0-DP-4", "renderD128", "version"),
    ]


def test_a_kfd_node_says_what_the_kernel_says(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")

    assert read(host, f"{NODES}/4/gpu_id") == "12261\n"
    assert read(host, f"{NODES}/4/name") == "aldebaran\n"
    # In the kernel's order, as far as a recorded host shows it.
    assert read(host, f"{NODES}/4/properties") == (
        "cpu_cores_count 0\nsimd_count 416\nmem_banks_count 1\ncaches_count 217\nio_links_count 4\n"
        "p2p_links_count 1\ncpu_core_id_base 0\nsimd_id_base 2147487968\nmax_waves_per_simd 8\n"
        "lds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\narray_count 8\n"
        "simd_arrays_per_engine 1\ncu_per_simd_array 14\nsimd_per_cu 4\nmax_slots_scratch_cu 32\n"
        "gfx_target_version 90010\nvendor_id 4098\ndevice_id 29711\nlocation_id 768\ndomain 0\n"
        "drm_render_minor 130\nhive_id 12609496539644722295\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 3\n"
        "num_sdma_queues_per_engine 8\nnum_cp_queues 24\nmax_engine_clk_fcompute 1700\nlocal_mem_size 0\n"
        "fw_version 92\ncapability 746037888\ndebug_prop 470\nsdma_fw_version 9\n"
        "unique_id 16876665094921906997\nnum_xcc 1\nmax_engine_clk_ccompute 2450\n"
    )
    assert read(host, f"{NODES}/4/mem_banks/0/properties") == (
        "heap_type 1\nsize_in_bytes 68702699520\nflags 0\nwidth 4096\nmem_clk_max 1600\n"
    )


def test_a_node_of_processors_has_no_gpu_in_it(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")

    assert read(host, f"{NODES}/1/gpu_id") == "0\n"
    assert read(host, f"{NODES}/1/name") == "\n"
    assert read(host, f"{NODES}/1/properties").splitlines()[:8] == [
        *("cpu_cores_count 64", "simd_count 0", "mem_banks_count 1", "caches_count 0", "io_links_count 1"),
        *("p2p_links_count 4", "cpu_core_id_base 64", "simd_id_base 0"),
    ]


def test_a_link_says_what_the_kernel_says(tmp_path):
    host = build_host(tmp_path / "host", "mi210-4")

    assert read(host, f"{NODES}/2/io_links/1/properties") == (
        "type 11\nversion_major 0\nversion_minor 0\nnode_from 2\nnode_to 3\nweight 15\nmin_latency 0\n"
        "max_latency 0\nmin_bandwidth 50000\nmax_bandwidth 50000\nrecommended_transfer_size 0\n"
        "recommended_sdma_engine_id_mask 28\nflags 1\n"
    )


def test_a_bare_host_lists_no_links_and_shows_no_idle_values(tmp_path):
    host = build_host(tmp_path / "host", "mi300x-8-cpx", bare=True)

    assert sorted(host.names(f"{NODES}/2")) == [
        *("caches", "gpu_id", "io_links", "mem_banks", "name", "p2p_links", "properties"),
    ]
    assert host.names(f"{NODES}/2/io_links") == []
    assert "io_links_count 63\n" in read(host, f"{NODES}/2/properties")
    assert "gpu_busy_percent" not in host.names("/sys/bus/pci/devices/0000:05:00.0/")


def test_nodes_in_dev_have_the_mode_that_udev_gives(tmp_path):
    profile = load_profile("one-gpu")
    host = build_host(tmp_path, profile.replace(access=profile.access.replace(render_mode=0o666)))

    nodes = ("/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128")
    assert [stat.S_IMODE(os.stat(host.path(node)).st_mode) for node in nodes] == [0o666, 0o660, 0o666]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_nodes_in_dev_have_the_groups_that_udev_gives(tmp_path):
    host = build_host(tmp_path, "one-gpu")

    nodes = ("/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128")
    assert [os.stat(host.path(node)).st_gid for node in nodes] == [110, 44, 110]


def test_a_kernel_without_kfd_has_drm_alone(tmp_path):
    host = build_host(tmp_path, load_profile("one-gpu").with_driver(kfd_major=None))

    assert sorted(host.names("/sys/class")) == ["drm", "hwmon"]
    assert sorted(host.names("/dev")) == ["dri"]


def test_without_the_driver_a_gpu_is_a_pci_function_and_no_more(tmp_path):
    host = build_host(tmp_path, "no-driver")

    assert host.names("/sys/module") == []
    assert sorted(host.names("/sys/bus/pci/devices/0000:03:00.0/")) == [
        *("class", "config", "device", "irq", "numa_node", "resource", "revision"),
        *("subsystem", "subsystem_device", "subsystem_vendor", "uevent", "vendor"),
    ]
    assert sorted(host.names("/dev/dri")) == ["by-path", "card0"]


def test_a_host_that_we_built_is_replaced(tmp_path):
    build_host(tmp_path, "mi210-8")

    host = build_host(tmp_path, "one-gpu")

    assert len(find_gpus(host)) == 1
    assert (tmp_path / ".simulated-host").read_text() == "one-gpu\n"


def test_a_directory_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(BuildError) as caught:
        build_host(tmp_path, "one-gpu")

    assert caught.value.message == f"{tmp_path} is not empty and not a simulated host"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_place_for_a_host(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(BuildError) as caught:
        build_host(tmp_path / "file", "one-gpu")

    assert caught.value.message == f"no host can be built in {tmp_path}/file: File exists"


def test_an_impossible_host_leaves_the_old_one(tmp_path):
    build_host(tmp_path, "mi210-4")

    with pytest.raises(ProfileError):
        build_host(tmp_path, load_profile("mi210-4").with_every_gpu(pci_address="0000:03:00.0"))

    assert len(find_gpus(Host(tmp_path))) == 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"device_id": 70000}, "device_id of a profile cannot be 70000 (choose one up to 65535)"),
        ({"revision": -1}, "revision of a profile cannot be -1 (choose one up to 255)"),
        ({"xcp_devices": 10**12}, "xcp_devices of a profile cannot be 1000000000000 (choose one up to 64)"),
    ],
)
def test_a_number_that_no_gpu_can_have_is_refused_before_anything_is_written(tmp_path, changes, sentence):
    profile = load_profile("one-gpu")

    with pytest.raises(ProfileError) as caught:
        build_host(tmp_path / "host", profile.with_gpu(0, model=profile.gpus[0].model.replace(**changes)))

    assert str(caught.value) == sentence
    assert not (tmp_path / "host").exists()


def test_a_mode_that_no_node_can_have_is_refused(tmp_path):
    profile = load_profile("one-gpu")

    with pytest.raises(ProfileError) as caught:
        build_host(tmp_path / "host", profile.replace(access=profile.access.replace(card_mode=0o100000)))

    assert str(caught.value) == "card_mode of a profile cannot be 32768 (choose one up to 4095)"


def test_a_host_with_more_nodes_than_any_has_is_refused(tmp_path):
    profile = load_profile("one-gpu")

    with pytest.raises(ProfileError) as caught:
        build_host(tmp_path / "host", profile.replace(cpus=profile.cpus * 520))

    assert str(caught.value) == "a host cannot have 521 KFD nodes (describe at most 520)"
