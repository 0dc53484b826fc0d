"""What programs of others see on a simulated server: a test for each row of the page's table.

They are Debian 13's and PyPI's, unmodified, and run with the fixture of the pytest plugin, as strangers run theirs.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.gpu import parse_pci_address
from amdgpu_discovery.recording.profile_json import format_profile
from amdgpu_simulator import build_host, load_profile
from amdgpu_simulator.random_profile import random_profile
from amdgpu_simulator.runs.server import SimulatedServer
from support.debian_root import install_from_pypi, make_root

pytestmark = [pytest.mark.e2e, pytest.mark.images, pytest.mark.timeout(3600)]

DEBIAN = (
    *("rocm-smi", "amd-smi", "rocminfo", "hwloc-nox", "nvtop", "pciutils", "prometheus-node-exporter", "radeontop"),
    *("lm-sensors", "python3", "libdrm-tests", "lshw"),
)
PYPI = ("ray", "ramalama", "glances")
# PyPI's torch is for another vendor's GPUs, and takes gigabytes; Debian's is for processors.
DEBIAN_WITH_TORCH = ("python3-torch", "python3-regex", "amd-smi", "rocminfo")
PYPI_WITH_TORCH = ("vllm", "bitsandbytes")
# The programs are in a file system of their own, over which the server's /sys and /dev are laid.
ENTER = (
    'for each in sys dev; do mount --rbind /$each "$0/$each"; done; mount -t proc proc "$0/proc"; exec chroot "$0" "$@"'
)
PAGE = Path(__file__).parents[2] / "docs/reference/simulated-programs.md"
MI210 = ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]
MI210_IDS = ["0xea35f57cc80deb35", "0x89caa15875ff5a43", "0x6e32f10efc982b4c", "0x12fe4f7fdaf06b9"]


@pytest.fixture(scope="module")
def root():
    root = make_root("simulated-trixie", "trixie", *DEBIAN)
    install_from_pypi(root, *PYPI)
    return root


@pytest.fixture(scope="module")
def torch_root():
    root = make_root("torch-trixie", "trixie", *DEBIAN_WITH_TORCH)
    install_from_pypi(root, *PYPI_WITH_TORCH, with_needs=False)
    return root


@pytest.fixture
def see(amd_host, root):
    """Return a function that runs a program on the server of the test, and returns both of its outputs."""
    return partial(run_in, amd_host, root)


@pytest.fixture
def see_with_torch(amd_host, torch_root):
    return partial(run_in, amd_host, torch_root)


def run_in(server, root, *words):
    done = server.run(["sh", "-ec", ENTER, os.fspath(root), *words], capture_output=True, text=True)
    return done.stdout + done.stderr


def see_python(see, code):
    return see("python3", "-c", code)


def cards(said):
    """Return what rocm-smi says of each GPU, in the order of their addresses."""
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    return sorted(json.loads(line).values(), key=lambda card: card["PCI Bus"])


# AMD's own


@pytest.mark.amd_host("mi210-4")
def test_rocm_smi_shows_each_gpu_as_an_idle_one(see):
    asked = ("--showbus", "--showuniqueid", "--showmeminfo", "vram", "--showuse", "--showtemp", "--showpower")

    found = cards(see("rocm-smi", *asked, "--json"))

    assert [(card["PCI Bus"].lower(), card["Unique ID"]) for card in found] == [*zip(MI210, MI210_IDS, strict=True)]
    assert {
        name: card[name]
        for card in found
        for name in (
            *("VRAM Total Memory (B)", "VRAM Total Used Memory (B)", "GPU use (%)"),
            *("Temperature (Sensor junction) (C)", "Average Graphics Package Power (W)"),
        )
    } == {
        "VRAM Total Memory (B)": "68702699520",
        "VRAM Total Used Memory (B)": "10485760",
        "GPU use (%)": "0",
        "Temperature (Sensor junction) (C)": "38.0",
        "Average Graphics Package Power (W)": "41.0",
    }


@pytest.mark.amd_host("mi210-4")
def test_amd_smi_counts_the_gpus_and_invents_their_addresses(see):
    found = re.findall(r"^ +BDF: (\S+)$", see("amd-smi", "list"), re.MULTILINE)

    assert len(found) == 4
    assert sorted(found) != MI210


@pytest.mark.amd_host("mi210-4")
def test_rocminfo_finds_the_driver_loaded_and_cannot_open_it(see):
    said = see("rocminfo")

    assert "ROCk module version 6.10.5 is loaded" in said
    assert "Unable to open /dev/kfd read-write: No such device or address" in said


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_rocm_agent_enumerator_names_the_targets(see):
    assert see("rocm_agent_enumerator").split()[-3:] == ["gfx000", "gfx1100", "gfx1036"]


# Monitors and inventory


@pytest.mark.amd_host("mi300x-8")
def test_lspci_lists_every_function_by_name(see):
    lines = see("lspci", "-D", "-d", "1002:").splitlines()

    found = [line.partition(" ") for line in lines if parse_pci_address(line.partition(" ")[0])]
    assert [address for address, _, _ in found] == [gpu.pci_address for gpu in load_profile("mi300x-8").gpus]
    assert all("MI300X" in name for _, _, name in found)


def hwloc(see):
    """Return the addresses of AMD's functions in hwloc, and the names of the GPUs below them."""
    said = see("lstopo-no-graphics", "--of", "xml", "--filter", "io:all")
    tree = ElementTree.fromstring(said[said.index("<?xml") : said.rindex(">") + 1])
    functions = [each for each in tree.iter("object") if each.get("type") == "PCIDev"]
    amd = [each for each in functions if "[1002:" in each.get("pci_type", "")]
    names = [each.get("name") for each in tree.iter("object") if each.get("type") == "OSDev"]
    return sorted(each.get("pci_busid") for each in amd), [name for name in names if re.match("card|renderD", name)]


@pytest.mark.amd_host("mi300x-8")
def test_hwloc_has_the_addresses_and_takes_each_node_for_a_gpu(see):
    addresses, names = hwloc(see)

    assert addresses == sorted(gpu.pci_address for gpu in load_profile("mi300x-8").gpus)
    # 8 GPUs and 55 unused partitions with two nodes each, a 56th without a card, and the card of the board.
    assert len(names) == 127


SCRAPE = """
prometheus-node-exporter --collector.disable-defaults --collector.drm --collector.hwmon \
  --web.listen-address=127.0.0.1:0 2>/tmp/exporter.log &
until grep -q 'Listening on' /tmp/exporter.log; do sleep 0.1; done
python3 - <<'END'
import re, urllib.request
address = re.search(r"Listening on. address=(\\S+)", open("/tmp/exporter.log").read())[1]
print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{address}/metrics").read().decode())
END
kill $!
"""


@pytest.mark.amd_host("mi210-4")
def test_node_exporter_has_the_memory_of_each_gpu_and_a_card_of_another_driver_as_amds(see):
    said = see("sh", "-c", SCRAPE)

    used = re.findall(r'^node_drm_memory_vram_used_bytes\{card="(\w+)"\} (\S+)$', said, re.MULTILINE)
    assert [(card, float(text)) for card, text in used] == [
        ("card0", 0.0),
        *((f"card{number}", 10485760.0) for number in (1, 2, 3, 4)),
    ]
    assert 'node_drm_card_info{card="card0",' in said
    assert said.count('vendor="amd"') == 5
    assert len(re.findall(r"^node_hwmon_power_average_watt\{.*\} 41$", said, re.MULTILINE)) == 4


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_lshw_names_the_gpus_and_their_driver(see):
    said = see("lshw", "-class", "display", "-quiet")

    assert re.findall(r"bus info: (\S+)", said) == ["pci@0000:03:00.0", "pci@0000:6d:00.0"]
    assert said.count("driver=amdgpu") == 2


@pytest.mark.amd_host("mi300a-4")
def test_libdrm_takes_all_partitions_for_one_device_if_the_driver_numbers_them_behind_a_dot(see):
    said = see("drmdevice")

    assert re.findall(r"Devices reported (\d+)", said) == ["5"]
    assert "Failed - No such device or address (6)" in said


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_nvtop_asks_the_driver_and_shows_nothing(see):
    assert "No GPU to monitor." in see("nvtop", "-s")


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_radeontop_cannot_open_a_node(see):
    assert "Failed to open /dev/dri/renderD129: No such device or address" in see("radeontop", "-d", "-", "-l", "1")


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_sensors_refuses_files_that_are_not_the_kernels(see):
    assert "sensors_init: Kernel interface error" in see("sensors")


# Python

RAY = (
    "from ray._private.accelerators.amd_gpu import AMDGPUAcceleratorManager as found\n"
    "print(found.get_current_node_num_accelerators(), found.get_current_node_accelerator_type())"
)
RAMALAMA = "import os, ramalama.common as found\nprint(found.check_rocm_amd(), os.environ.get('HIP_VISIBLE_DEVICES'))"
GLANCES = (
    "from glances.plugins.gpu.cards.amd import AmdGPU\n"
    "print(sorted((each['name'], each['mem'], each['proc']) for each in AmdGPU().get_device_stats()))"
)


# Where Debian's amd-smi has its module, which is not among those that Python finds.
AMDSMI = "PYTHONPATH=/usr/share/amd_smi"


@pytest.mark.amd_host("mi300x-8-cpx")
def test_ray_counts_every_partition_with_debians_amdsmi_and_none_without(see):
    assert "63 AMD-Instinct-MI300X-OAM\n" in see("env", AMDSMI, "python3", "-c", RAY)
    assert "0 None\n" in see_python(see, RAY)


ANSWERS = """
import amdsmi
amdsmi.amdsmi_init()
handles = amdsmi.amdsmi_get_processor_handles()
print(len(handles))
names = "asic_info compute_partition memory_partition vram_info activity metrics_info vram_usage"
for name in names.split():
    try:
        answer = getattr(amdsmi, f"amdsmi_get_gpu_{name}")(handles[0])
    except amdsmi.AmdSmiLibraryException as error:
        answer = error.get_error_code()
    print(name, answer.get("vram_size_mb", answer.get("market_name")) if isinstance(answer, dict) else answer)
"""


@pytest.mark.amd_host("mi300x-8")
def test_amdsmi_answers_what_stands_in_files_and_not_what_the_driver_would_say(see):
    said = see("env", AMDSMI, "python3", "-c", ANSWERS)

    assert said.splitlines()[-8:] == [
        "8",
        "asic_info Aqua Vanjaram [Instinct MI300X]",
        "compute_partition SPX",
        "memory_partition NPS1",
        "vram_info 196592",
        # AMDSMI_STATUS_UNEXPECTED_DATA and AMDSMI_STATUS_NOT_SUPPORTED.
        "activity 43",
        "metrics_info 43",
        "vram_usage 2",
    ]


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_ramalama_takes_the_processors_gpu_before_a_radeon_with_less_memory(see):
    assert "hip 1\n" in see_python(see, RAMALAMA)


@pytest.mark.amd_host("mi300x-8-cpx")
def test_glances_shows_a_board_for_its_eight_partitions(see):
    assert f"{[('Instinct MI300X', 0, 0)] * 8}\n" in see_python(see, GLANCES)


@pytest.mark.amd_host("rx7900xtx-raphael")
def test_glances_shows_both_gpus_of_a_desktop(see):
    assert "[('AMD GPU', 4, 0), ('Radeon RX 7900 XTX', 0, 0)]\n" in see_python(see, GLANCES)


VLLM = "import vllm.platforms as found\nprint(found.rocm_platform_plugin())"
BITSANDBYTES = (
    "import torch, bitsandbytes.cuda_specs as found\n"
    "print(found.get_cuda_specs(), found.get_rocm_gpu_arch())\n"
    # As a torch for ROCm says, which makes it ask rocminfo.
    "torch.version.hip = '6.1'\n"
    "print(found.get_rocm_gpu_arch())"
)


@pytest.mark.amd_host("mi300x-8-cpx")
def test_vllm_takes_rocm_with_debians_amdsmi_and_nothing_without(see_with_torch):
    assert "vllm.platforms.rocm.RocmPlatform\n" in see_with_torch("env", AMDSMI, "python3", "-c", VLLM)
    assert see_python(see_with_torch, VLLM).splitlines()[0] == "None"


@pytest.mark.amd_host("no-driver")
def test_vllm_takes_nothing_without_the_driver(see_with_torch):
    assert see_with_torch("env", AMDSMI, "python3", "-c", VLLM).splitlines()[0] == "None"


@pytest.mark.amd_host("mi300x-8")
def test_bitsandbytes_asks_torch_and_rocminfo_and_finds_no_target(see_with_torch):
    assert "None unknown\nunknown\n" in see_python(see_with_torch, BITSANDBYTES)


# All hosts that could exist

PROFILES = int(os.environ.get("AMD_SIMULATED_PROFILES", "4"))
# hwloc and rocm-smi read domains of at most 16 bits.
LAST_DOMAIN = 0xFFFF


def draw_profile(random):
    """Return a random host with the minors of a real one: rocm-smi takes a second for each hundred of them."""
    drawn = random_profile(random)
    pairs = [pair for gpu in drawn.gpus for pair in gpu.minors]
    ranks = [{minor: rank for rank, minor in enumerate(sorted(pair[kind] for pair in pairs))} for kind in (0, 1)]
    gpus = [
        gpu.replace(minors=tuple((192 + 2 * ranks[0][card], 128 + ranks[1][render]) for card, render in gpu.minors))
        for gpu in drawn.gpus
        if int(gpu.pci_address.split(":")[0], 16) <= LAST_DOMAIN
    ]
    return drawn.replace(gpus=tuple(gpus))


def rows_of_rocm_smi(gpus):
    """Return the addresses that rocm-smi shows: it knows partitions of a board only by a unique id that they share."""
    by_address = {}
    for gpu in gpus:
        by_address.setdefault(str(gpu.pci_address), []).append(gpu)
    rows = []
    for address, parts in by_address.items():
        has_shared_id = parts[0].kfd_unique_id and len({gpu.kfd_unique_id for gpu in parts}) == 1
        # It shows the number of a partition in place of the function's.
        rows += [f"{address[:-1]}{number}" for number in range(len(parts))] if has_shared_id else [address]
    return sorted(rows)


def assert_listed_alike(root, directory, profile):
    file = directory / "profile.json"
    file.write_bytes(format_profile(profile))
    server = SimulatedServer(directory / "server", os.fspath(file), refuse=pytest.skip)

    def see(*words):
        done = server.run(["sh", "-ec", ENTER, os.fspath(root), *words], capture_output=True, text=True)
        return done.stdout

    ours = find_gpus(build_host(directory / "host", profile, bare=True))
    # Where there is no card at all, rocm-smi does not end.
    smi = cards(see("rocm-smi", "--showbus", "--showuniqueid", "--json")) if ours else []
    assert [card["PCI Bus"].lower() for card in smi] == rows_of_rocm_smi(ours)
    assert hwloc(see)[0] == sorted(gpu.pci_address for gpu in profile.gpus)


@pytest.mark.parametrize("seed", range(PROFILES))
def test_rocm_smi_and_hwloc_list_a_random_host_as_this_toolkit_does(root, tmp_path, seed):
    assert_listed_alike(root, tmp_path, draw_profile(Random(seed)))


def test_rocm_smi_and_hwloc_list_partitions_without_a_card_too(root, tmp_path):
    profile = load_profile("mi308x-8-cpx")
    cards = [1, 2, None, None, 3, 4, 5, 6]
    minors = (tuple(zip(cards, range(128, 136), strict=True)), tuple(zip(range(10, 18), range(140, 148), strict=True)))
    gpus = tuple(gpu.replace(minors=pairs) for gpu, pairs in zip(profile.gpus[:2], minors, strict=True))

    assert_listed_alike(root, tmp_path, profile.replace(gpus=gpus))


def test_every_row_of_the_page_has_a_test():
    rows = re.findall(r"^\| `([^`]+)` ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    tests = " ".join(name for name in globals() if name.startswith("test_")).replace("_", "-")

    assert len(rows) >= 12
    assert [row for row in rows if row.replace("_", "-") not in tests] == []
