"""A GPU server that `amd-ctk simulate run` lays over a machine, for our programs, AMD's and Podman's.

The machine has GPUs of its own, four MI210, which nothing inside sees.
"""

from __future__ import annotations

import json
import re

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_simulator import build_host
from support.debian_root import LOGGED_INTO, make_root
from support.installed import require_root
from support.stand import Stand

pytestmark = pytest.mark.e2e

PROFILE = "mi300x-8"
FIRST_LINE = f"Simulating {PROFILE} until the command ends, without a driver: opening a GPU fails"
ROCM_SMI = "rocm-smi --showbus --showuniqueid --showmeminfo vram --json 2>/dev/null || :"
# amd-smi 6.1 of Debian 13 asks the device for its address, which one without a driver cannot answer.
SMI = {"bookworm": ("rocm-smi",), "trixie": ("rocm-smi", "amd-smi")}
RUNTIME = "podman --runtime=/usr/bin/amd-container-runtime run --rm --network=none"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the address, unique id and memory of each GPU of the profile, in the order of their numbers."""
    host = build_host(tmp_path_factory.mktemp("host") / "host", PROFILE)
    return [(str(gpu.pci_address), f"0x{gpu.kfd_unique_id:x}", gpu.vram_bytes) for gpu in find_gpus(host)]


def listed(text):
    """Return what `amd-ctk gpu list --json` says."""
    gpus = json.loads(text[text.index("{") :])["gpus"]
    return [(gpu["pci_address"], gpu["kfd_unique_id"].lower(), gpu["vram_bytes"]) for gpu in gpus]


def test_the_toolkits_programs_find_the_gpus_of_the_profile_as_root_and_as_a_user(stand, expected):
    command = f"amd-ctk simulate run {PROFILE} -- amd-ctk gpu list --json"

    assert listed(stand.run(command)) == expected
    assert listed(stand.as_user("alice", command)) == expected
    assert len(listed(stand.run("amd-ctk gpu list --json"))) == 4


def test_the_first_line_says_that_nodes_are_plain_files_where_they_are(stand):
    command = f"amd-ctk simulate run {PROFILE} -- stat -c %F /dev/kfd 2>&1"

    # Numbers of the machine's four GPUs.
    plain = ", ".join(("dri/card0", *(f"dri/card{n}, dri/renderD{n + 127}" for n in range(1, 5))))
    assert stand.run(command) == (
        f"{FIRST_LINE}; plain files, because this machine has devices with the same numbers: {plain}\n"
        "character special file\n"
    )
    assert stand.as_user("alice", command) == (
        f"{FIRST_LINE}; its device nodes are plain files, and engines need 'podman unshare' in front, or root\n"
        "regular empty file\n"
    )


def test_files_of_the_toolkit_are_forgotten_with_the_simulation(stand):
    stand.run("rm -rf /etc/cdi; amd-ctk gpu-tracker disable")

    inside = stand.run(
        f"amd-ctk simulate run {PROFILE} -- sh -c "
        "'amd-ctk cdi generate; amd-ctk gpu-tracker enable; amd-ctk gpu-tracker 5 exclusive; ls /etc/cdi'"
    )

    assert inside.endswith("amd.json\n")
    assert "cannot access" in stand.run("ls /etc/cdi", check=False)
    assert '"enabled": false' in stand.run("amd-ctk gpu-tracker status --json")


def test_containers_of_podman_get_the_gpus_that_they_ask_for(stand, image_archive):
    stand.run("loginctl enable-linger alice")
    stand.put_image(image_archive)
    stand.put_image(image_archive, "alice")
    inside = "ls /dev/dri"
    run = f"simulate run {PROFILE} -- {RUNTIME} -e AMD_VISIBLE_DEVICES=1,3 busybox:local {inside}"

    nodes = ["card25", "card9", "renderD136", "renderD152"]
    assert stand.run(f"amd-ctk {run}").split()[-4:] == nodes
    assert stand.as_user("alice", f"podman unshare amd-ctk {run}").split()[-4:] == nodes


@pytest.fixture(scope="module", params=[pytest.param(suite, marks=pytest.mark.story) for suite in SMI])
def with_tools(request, tmp_path_factory):
    """Return a machine with AMD's tools of its Debian release."""
    require_root()
    suite = request.param
    root = make_root(f"simulate-{suite}", suite, *LOGGED_INTO, *SMI[suite])
    stand = Stand(tmp_path_factory.mktemp(suite), suite, root=root)
    yield stand
    stand.stop()


@pytest.mark.parametrize("user", ["root", "alice"])
def test_rocm_smi_lists_what_the_profile_has(with_tools, expected, user):
    command = f'amd-ctk simulate run {PROFILE} -- sh -c "{ROCM_SMI}"'
    said = with_tools.run(command) if user == "root" else with_tools.as_user(user, command)

    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    cards = sorted(json.loads(line).values(), key=lambda card: card["PCI Bus"])
    assert [
        (card["PCI Bus"].lower(), card["Unique ID"].lower(), int(card["VRAM Total Memory (B)"])) for card in cards
    ] == expected


def test_amd_smi_lists_as_many(with_tools, expected):
    if "No such file" in with_tools.run("ls /usr/bin/amd-smi 2>&1", check=False):
        pytest.skip("Debian 12 has no amd-smi")

    # On a machine without GPUs: some nodes would be plain files here, and with those amd-smi 6.1 ends by a signal.
    run = f'amd-ctk simulate run {PROFILE} -- sh -c "amd-smi list || :"'
    said = with_tools.run(f"unshare --mount sh -c 'mount -t tmpfs none /sys/dev/char && {run}'")

    assert len(re.findall(r"^GPU: \d+$", said, re.MULTILINE)) == len(expected)
