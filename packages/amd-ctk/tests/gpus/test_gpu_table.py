"""The list of GPUs on real terminals, and with --wide elsewhere."""

from __future__ import annotations

import json
import os

import pytest

from amd_gpu_tracker.book.lease import Lease
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from support.terminal import shown_on_terminal

WEB = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
TASK = "90cb29e11e83aa3ae497c68c90e1f0894b85262188c1ef9c7284457a9bc35ffd"


@pytest.fixture
def on_terminal(tmp_path, program):
    """Return a function that runs amd-ctk on a terminal of so many columns, and returns what it shows."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMD_CTK_HOST_ROOT": str(tmp_path / "host")}

    def run(*words, columns):
        code, shown = shown_on_terminal([program, *words], environment, columns=columns)
        assert code == 0
        return shown

    return run


def use(host, container_id, number, *, name, directory):
    """Write the lease of a container that this process keeps alive; an engine has given it a name."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"annotations": {"nerdctl/name": name}}))
    processes = Processes()
    State(host).write_lease(
        Lease(
            container_id=container_id,
            bundle=str(directory),
            creator=processes.myself(),
            gpus=(locate_gpus(host)[number].key,),
            ways=("env",),
            since=1795341600.0,
            boot_offset=0.0,
            boot_id=processes.boot_id,
            namespace=processes.namespace,
        )
    )


@pytest.fixture
def used(host, tmp_path):
    """Return four MI210, of which two containers use GPU 1."""
    made = host()
    Tracker(made).enable()
    use(made, WEB, 1, name="web", directory=tmp_path / "web")
    use(made, TASK, 1, name="training.1.x8f3k2j5l6m7n8o9p0q1r2s3t", directory=tmp_path / "task")
    return made


def test_the_list_fits_80_columns(used, on_terminal):
    assert (
        on_terminal("gpu", "list", columns=80)
        == f"""\
Found 4 AMD GPU devices
{"-" * 80}
GPU Id  Model    Memory  UUID                DRM Devices          Used by
{"-" * 80}
0       MI210  64.0 GiB  0xEA35F57CC80DEB35  /dev/dri/renderD130  -
1       MI210  64.0 GiB  0x89CAA15875FF5A43  /dev/dri/renderD131  web
                                                                  trainin…1r2s3t
2       MI210  64.0 GiB  0x6E32F10EFC982B4C  /dev/dri/renderD129  -
3       MI210  64.0 GiB  0x12FE4F7FDAF06B9   /dev/dri/renderD128  -
"""
    )


WIDE = f"""\
Found 4 AMD GPU devices
{"-" * 130}
GPU Id  Model  Target    Memory  UUID                DRM Devices          PCI Address   NUMA  Used by
{"-" * 130}
0       MI210  gfx90a  64.0 GiB  0xEA35F57CC80DEB35  /dev/dri/renderD130  0000:03:00.0     0  -
1       MI210  gfx90a  64.0 GiB  0x89CAA15875FF5A43  /dev/dri/renderD131  0000:26:00.0     0  web
                                                                                              training.1.x8f3k2j5l6m7n8o9p0q1r2s3t
2       MI210  gfx90a  64.0 GiB  0x6E32F10EFC982B4C  /dev/dri/renderD129  0000:43:00.0     0  -
3       MI210  gfx90a  64.0 GiB  0x12FE4F7FDAF06B9   /dev/dri/renderD128  0000:63:00.0     0  -
"""


WITH_STATES = f"""\
Found 4 AMD GPU devices
{"-" * 140}
GPU Id  Model  Target    Memory  UUID                DRM Devices          PCI Address   NUMA  State     Used by
{"-" * 140}
0       MI210  gfx90a  64.0 GiB  0xEA35F57CC80DEB35  /dev/dri/renderD130  0000:03:00.0     0  drained   -
1       MI210  gfx90a  64.0 GiB  0x89CAA15875FF5A43  /dev/dri/renderD131  0000:26:00.0     0  reserved  web
                                                                                                        training.1.x8f3k2j5l6m7n8o9p0q1r2s3t
2       MI210  gfx90a  64.0 GiB  0x6E32F10EFC982B4C  /dev/dri/renderD129  0000:43:00.0     0  free      -
3       MI210  gfx90a  64.0 GiB  0x12FE4F7FDAF06B9   /dev/dri/renderD128  0000:63:00.0     0  free      -
"""


@pytest.mark.parametrize("columns", [160, 200])
def test_a_wide_terminal_has_all_columns(used, on_terminal, columns):
    assert on_terminal("gpu", "list", columns=columns) == WIDE


def test_a_wide_list_is_whole_for_who_asks_for_it_and_in_a_pipe(used, on_terminal, amd_ctk):
    assert on_terminal("gpu", "list", "--no-trunc", columns=80) == WIDE
    amd_ctk("gpu-tracker", "drain", "0", "--reason=fan swap")
    answer = amd_ctk("gpu", "list", "--wide")
    assert (answer.stdout, answer.stderr) == (WITH_STATES, "GPU 0 is drained: fan swap\n")


def test_columns_give_way_in_their_order(host, on_terminal):
    host("mi300x-8-cpx")
    headers = (
        "GPU Id  Model   Target    Memory  UUID                DRM Devices          "
        "PCI Address   Partition        NUMA  State"
    )

    def shown(columns):
        return on_terminal("gpu", "list", "--wide", columns=columns).splitlines()[2]

    assert shown(117) == headers
    assert shown(116) == headers.replace("NUMA  ", "")
    assert (
        shown(110)
        == "GPU Id  Model     Memory  UUID                DRM Devices          PCI Address   Partition        State"
    )
    assert shown(102) == "GPU Id  Model     Memory  UUID                DRM Devices          Partition        State"
    assert shown(83) == "GPU Id  Model     Memory  UUID                DRM Devices          State"
    assert shown(70) == "GPU Id  Model   UUID                DRM Devices          State"
    assert shown(60) == "GPU Id  UUID                DRM Devices          State"
    assert shown(50) == "GPU Id  UUID                DRM Devices"


def test_partitions_are_distinguished(host, amd_ctk):
    host("mi300x-8-cpx")

    lines = amd_ctk("gpu", "list", "--wide").stdout.splitlines()

    assert (lines[0], len(lines)) == ("Found 63 AMD GPU devices", 67)
    board = "MI300X  gfx942  24.0 GiB  0xE3AA140F9A5F9E31  /dev/dri/renderD"
    assert lines[4:6] == [
        f"0       {board}128  0000:05:00.0  CPX/NPS4 1 of 8     0  free",
        f"1       {board}129  0000:05:00.0  CPX/NPS4 2 of 8     0  free",
    ]


def test_without_the_tracker_nobody_is_said_to_use_anything(host, amd_ctk):
    host("strix-halo")

    assert (
        amd_ctk("gpu", "list", "--wide").stdout
        == f"""\
Found 1 AMD GPU device
{"-" * 95}
GPU Id  Model    Target            Memory  UUID  DRM Devices          PCI Address   NUMA  State
{"-" * 95}
0       GFX1151  gfx1151  62.0 GiB shared  N/A   /dev/dri/renderD128  0000:c5:00.0     -  free
"""
    )


def test_a_tracker_that_cannot_answer_is_reported_beside_the_list(used, amd_ctk):
    with open(used.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/unique_id"), "w") as file:
        file.write("0123456789abcdef\n")

    answer = amd_ctk("gpu", "list", "--wide")

    assert (answer.returncode, answer.stderr) == (0, "GPUs info is invalid. Please reset GPU Tracker.\n")
    assert "Used by" not in answer.stdout


def test_no_gpu_is_one_line(host, on_terminal):
    from amdgpu_simulator import load_profile

    host(load_profile("one-gpu").replace(gpus=()))

    assert on_terminal("gpu", "list", columns=80) == "Found 0 AMD GPU devices\n"
