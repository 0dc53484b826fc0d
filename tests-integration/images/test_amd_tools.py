"""What AMD's own tools show inside containers and on the host, of three Debian releases, over a simulated host.

The host's /sys is laid over that of the container, as sysfs has no namespaces.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess

import pytest

from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile
from support.busybox import pack
from support.debian_root import make_root
from support.docker import IMAGE
from support.installed import engine_program, our_program
from support.podman import Podman

pytestmark = [pytest.mark.e2e, pytest.mark.images, pytest.mark.timeout(3600)]

KFD_NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
# kfd_topology.c, node_show: each is EPERM for who may not open the render node.
HIDDEN = ("gpu_id", "properties")
# amd-smi of testing looks there for what is no GPU, and Podman mounts something there.
OTHERS = ("/sys/class/net", "/sys/class/scsi_host", "/sys/fs/cgroup")
# What rocm-smi takes for the sign of a GPU.
FIRMWARE = {"vbios_version": "113-D67301-063"}
TOOLS = ("rocm-smi", "rocminfo", "python3")
# rocm-smi is 5.2, 6.1 and 6.4; amd-smi is 6.1 and 10.1.
RELEASES = {"bookworm": TOOLS, "trixie": (*TOOLS, "amd-smi"), "forky": (*TOOLS, "amd-smi")}
CUT_SHORT = "amd-smi 6.1 asks the device for its address, which one without a driver cannot answer"


def build(directory, profile):
    """Return a host with what the tools look for."""
    host = build_host(directory / "host", profile.with_every_gpu(health=FIRMWARE))
    for path in OTHERS:
        os.makedirs(host.path(path))
    return host


@pytest.fixture(scope="module")
def sys_for(tmp_path_factory):
    """Return a function that makes a /sys whose KFD shows these GPUs of a profile to everybody; None for all.

    Of the others the device cgroup decides who may read, as in the kernel.
    """

    def make(profile, numbers=None):
        host = build(tmp_path_factory.mktemp("hiding"), load_profile(profile))
        for gpu in locate_gpus(host):
            if numbers is not None and gpu.number not in numbers:
                for name in HIDDEN:
                    path = host.path(f"{KFD_NODES}/{gpu.kfd_node}/{name}")
                    os.unlink(path)
                    os.mknod(path, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))
        return host.path("/sys")

    return make


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    """Return the name of a Debian release."""
    return request.param


@pytest.fixture(scope="module")
def archive(release, tmp_path_factory):
    """Return an image's root file system with AMD's tools."""
    root = make_root(f"amd-tools-{release}", release, *RELEASES[release])
    return pack(root, tmp_path_factory.mktemp("image") / "tools.tar")


@pytest.fixture(scope="module")
def show(archive, tmp_path_factory, start_docker):
    """Return a function that runs a tool in a container of Docker that has these GPUs of a profile."""
    engines = {}

    def run(profile, gpus, sys, *command):
        if profile not in engines:
            engines[profile] = start_docker(build(tmp_path_factory.mktemp("served"), load_profile(profile)).root)
            engines[profile].import_image(archive, "tools:local")
        options = ("--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}", f"--volume={sys}:/sys:ro")
        return engines[profile].output(*options, image="tools:local", command=command)

    return run


def addresses(said):
    """Return the PCI addresses that rocm-smi or amd-smi shows, in its order, which it counts from 0."""
    rows = re.findall(r"^GPU\[(\d+)\]\s*: PCI Bus: (\S+)$|^GPU: (\d+)\n +BDF: (\S+)$", said, re.MULTILINE)
    assert [int(row[0] or row[2]) for row in rows] == list(range(len(rows)))
    return [(row[1] or row[3]).lower() for row in rows]


ROCM_SMI = ("rocm-smi", "--showbus")
# It fails where it shows nothing.
AMD_SMI = ("sh", "-c", "amd-smi list || :")

# A container's GPUs, and their addresses in the order of the driver's cards, which is that of 5.2.
WHOLE = [
    ("all", {0, 1, 2, 3}, ["0000:63:00.0", "0000:43:00.0", "0000:03:00.0", "0000:26:00.0"]),
    ("1-2", {1, 2}, ["0000:43:00.0", "0000:26:00.0"]),
    ("3", {3}, ["0000:63:00.0"]),
    ("none", set(), []),
]
# Of a host whose eight boards have eight partitions each: what every version shows of a container's GPUs.
BOARD = "0000:05:00"
PARTS = [
    (
        "0-1,17",
        {0, 1, 17},
        {
            "bookworm": [f"{BOARD}.0"],
            "trixie": [f"{BOARD}.0", f"{BOARD}.1"],
            "forky": [f"{BOARD}.0", f"{BOARD}.1", "0000:47:00.1"],
        },
    ),
    ("5", {5}, {"bookworm": [], "trixie": [], "forky": [f"{BOARD}.5"]}),
    ("none", set(), {"bookworm": [], "trixie": [], "forky": []}),
]


def by_request(cases):
    return pytest.mark.parametrize(("gpus", "numbers", "shown"), cases, ids=[gpus for gpus, *_ in cases])


@by_request(WHOLE)
def test_rocm_smi_shows_the_gpus_of_its_container_and_counts_them_from_0(show, release, sys_for, gpus, numbers, shown):
    said = show("mi210-4", gpus, sys_for("mi210-4", numbers), *ROCM_SMI)

    # Later ones count in the order of PCI addresses, as this toolkit does.
    assert addresses(said) == (shown if release == "bookworm" else sorted(shown))


@by_request(PARTS)
def test_rocm_smi_before_6_4_shows_partitions_only_beside_the_first_of_their_board(
    show, release, sys_for, gpus, numbers, shown
):
    said = show("mi300x-8-cpx", gpus, sys_for("mi300x-8-cpx", numbers), *ROCM_SMI)

    assert addresses(said) == shown[release]


@by_request(WHOLE)
def test_amd_smi_shows_the_gpus_of_its_container_and_counts_them_from_0(show, release, sys_for, gpus, numbers, shown):
    if release == "bookworm":
        pytest.skip("Debian 12 has no amd-smi")
    found = addresses(show("mi210-4", gpus, sys_for("mi210-4", numbers), *AMD_SMI))

    assert len(found) == len(shown)
    assert release == "trixie" or found == sorted(shown), CUT_SHORT


@by_request(PARTS)
def test_amd_smi_shows_the_partitions_that_rocm_smi_of_its_release_shows(show, release, sys_for, gpus, numbers, shown):
    if release == "bookworm":
        pytest.skip("Debian 12 has no amd-smi")
    found = addresses(show("mi300x-8-cpx", gpus, sys_for("mi300x-8-cpx", numbers), *AMD_SMI))

    assert len(found) == len(shown[release])
    assert release == "trixie" or found == shown[release], CUT_SHORT


@by_request(WHOLE)
def test_rocm_agent_enumerator_names_the_targets_of_the_gpus_of_its_container(
    show, release, sys_for, gpus, numbers, shown
):
    said = show("mi210-4", gpus, sys_for("mi210-4", numbers), "rocm_agent_enumerator")

    # Where KFD shows no GPU it asks lspci, which shows those of the host. Later ones leave out the processor.
    processor = [] if release == "forky" else ["gfx000"]
    assert said.split() == processor + ["gfx90a"] * (len(shown) or 4)


def test_without_a_kernel_that_hides_gpus_rocm_smi_shows_all_of_the_host(show, sys_for):
    said = show("mi210-4", "3", sys_for("mi210-4"), *ROCM_SMI)

    assert len(addresses(said)) == 4


def test_in_podman_rocm_smi_shows_what_it_shows_in_docker(release, archive, tmp_path, sys_for):
    host = build(tmp_path, load_profile("mi210-4"))
    podman = Podman(engine_program("podman"), tmp_path, our_program("amd-container-runtime"), host.root)
    podman.import_image(archive)
    words = ("run", "--rm", "--env=AMD_VISIBLE_DEVICES=1-2", f"--volume={sys_for('mi210-4', {1, 2})}:/sys:ro", IMAGE)

    found = addresses(podman(*words, *ROCM_SMI).stdout)

    assert found == (["0000:43:00.0", "0000:26:00.0"] if release == "bookworm" else ["0000:26:00.0", "0000:43:00.0"])


GIB = 1 << 30
TRAINING = SimulatedProcess(pid=4242, name="train", uses=(SimulatedUse(gpu=1, vram_bytes=12 * GIB, client_id=5),))
ANSWERING = SimulatedProcess(
    pid=4343,
    name="answer",
    uses=(
        SimulatedUse(gpu=0, vram_bytes=3 * GIB, gtt_bytes=2 * GIB, client_id=6),
        SimulatedUse(gpu=3, vram_bytes=GIB, client_id=7),
    ),
)


def busy_profile():
    """Return four MI210, each with sensors of its own, of which two processes use three."""
    profile = load_profile("mi210-4").replace(processes=(TRAINING, ANSWERING))
    for position in range(len(profile.gpus)):
        sensors = {
            "name": "amdgpu",
            "temp1_label": "edge",
            "temp1_input": f"{41 + position}000",
            "temp2_label": "junction",
            "temp2_input": f"{51 + position}000",
            # rocm-smi 5.2 does not start without it.
            "in0_label": "vddgfx",
            "power1_average": f"{90 + position}000000",
        }
        health = {f"hwmon/hwmon3/{name}": text for name, text in sensors.items()}
        profile = profile.with_gpu(position, busy_percent=10 * position + 7, health={**FIRMWARE, **health})
    return profile


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Return a host whose GPUs are in use."""
    host = build_host(tmp_path_factory.mktemp("busy") / "host", busy_profile())
    for path in OTHERS:
        os.makedirs(host.path(path))
    return host


@pytest.fixture(scope="module")
def on_host(archive, busy, tmp_path_factory, start_docker):
    """Return a function that runs a tool as on the host: with its /sys, and with every node."""
    docker = start_docker(busy.root)
    docker.import_image(archive, "tools:local")
    options = ("--runtime=amd", "--env=AMD_VISIBLE_DEVICES=all", f"--volume={busy.path('/sys')}:/sys:ro")
    return lambda *command: docker.output(*options, image="tools:local", command=command)


def cards(on_host, *fields):
    """Return what rocm-smi prints of each GPU; 5.2 also fails where it has printed everything."""
    said = on_host("sh", "-c", f"rocm-smi --showbus {' '.join(fields)} --json || :")
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    return sorted(json.loads(line).values(), key=lambda card: card["PCI Bus"].lower())


def ours(host, *words):
    """Return what our program prints about a host."""
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root, "COLUMNS": "200"}
    command = [our_program("amd-ctk"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_list_and_the_usage_have_the_numbers_of_rocm_smi_on_the_host(busy, on_host):
    told = cards(on_host, "--showuniqueid", "--showuse", "--showmeminfo vram gtt")

    gpus = json.loads(ours(busy, "gpu", "list", "--json"))["gpus"]
    used = json.loads(ours(busy, "status", "--usage", "--json"))["gpus"]

    assert [(gpu["pci_address"], gpu["kfd_unique_id"], gpu["vram_bytes"]) for gpu in gpus] == [
        (card["PCI Bus"].lower(), card["Unique ID"], int(card["VRAM Total Memory (B)"])) for card in told
    ]
    assert [
        (gpu["vram_used"], gpu["gtt_used"], gpu["vram_total"], gpu["gtt_total"], gpu["busy_percent"]) for gpu in used
    ] == [
        (
            int(card["VRAM Total Used Memory (B)"]),
            int(card["GTT Total Used Memory (B)"]),
            int(card["VRAM Total Memory (B)"]),
            int(card["GTT Total Memory (B)"]),
            int(card["GPU use (%)"]),
        )
        for card in told
    ]


def test_top_has_the_temperature_the_power_and_the_use_of_rocm_smi_on_the_host(busy, on_host):
    told = cards(on_host, "--showuse", "--showtemp", "--showpower", "--showmeminfo vram")

    rows = re.findall(r"(\d+\.\d) of (\d+\.\d) GiB +(\d+) % +(\d+) C +(\d+) W", ours(busy, "top"))

    assert rows == [
        (
            f"{int(card['VRAM Total Used Memory (B)']) / GIB:.1f}",
            f"{int(card['VRAM Total Memory (B)']) / GIB:.1f}",
            card["GPU use (%)"],
            card["Temperature (Sensor junction) (C)"].partition(".")[0],
            card["Average Graphics Package Power (W)"].partition(".")[0],
        )
        for card in told
    ]


def test_the_usage_has_the_processes_of_rocm_smi_on_the_host(busy, on_host):
    said = on_host("sh", "-c", "rocm-smi --showpids 2>/dev/null || :")
    told = {int(pid): int(used) for pid, used in re.findall(r"^(\d+)\s+\S+\s+\S+\s+(\d+)", said, re.MULTILINE)}

    used = json.loads(ours(busy, "status", "--usage", "--json"))["gpus"]

    by_process = {}
    for process in [each for gpu in used for user in gpu["users"] for each in user["processes"]]:
        by_process[process["pid"]] = by_process.get(process["pid"], 0) + process["vram_bytes"]
    assert by_process == told == {4242: 12 * GIB, 4343: 4 * GIB}


def test_the_usage_has_the_processes_of_amd_smi_on_the_host(release, busy, on_host):
    if release != "forky":
        pytest.skip("only amd-smi of testing shows the processes of a GPU that answers no ioctl")
    told = json.loads(on_host("sh", "-c", "amd-smi process --json 2>/dev/null || :"))
    told = told if isinstance(told, list) else told["gpu_data"]

    used = json.loads(ours(busy, "status", "--usage", "--json"))["gpus"]

    assert [
        (gpu["number"], process["pid"], process["vram_bytes"])
        for gpu in used
        for user in gpu["users"]
        for process in user["processes"]
    ] == [
        (gpu["gpu"], process["process_info"]["pid"], process["process_info"]["memory_usage"]["vram_mem"]["value"])
        for gpu in told
        for process in gpu["process_list"]
        if isinstance(process["process_info"], dict)
    ]
