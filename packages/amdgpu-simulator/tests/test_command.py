"""The program amdgpu-simulator: list, build and record."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host, load_profile


def simulate(*arguments, **environment):
    command = [os.path.join(os.path.dirname(sys.executable), "amdgpu-simulator"), *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def test_list_says_what_there_is():
    assert simulate("list") == (
        0,
        (
            "headless           one Radeon AI PRO R9700 without displays: its card is card1, and there is no card0\n"
            "mi210-4            4 MI210 in one XGMI hive, probed in another order than their PCI addresses have\n"
            "mi210-8            8 MI210 in two XGMI hives, probed in another order than their PCI addresses have\n"
            "mi300a-4           4 MI300A (SPX, NPS1), each in its own PCI domain; the driver says amdgpu_xcp.0\n"
            "mi300x-8           8 MI300X (SPX, NPS1), with the DRM nodes of 55 unused partitions\n"
            "mi300x-8-cpx       8 MI300X as 63 partitions (CPX, NPS4): the 64th found no free card minor\n"
            "mi300x-vf          two MI300X of a virtual machine (SR-IOV), probed last to first, without sensors\n"
            "mi308x-8-cpx       8 MI308X as 32 partitions (CPX, NPS4) in two PCI domains, with 32 unused render nodes\n"
            "mi355x-8           8 MI355X (SPX, NPS1), with 56 unused partitions and unlike KFD and PCI unique ids\n"
            "no-driver          an MI210 on a host that has not loaded the amdgpu driver\n"
            "one-gpu            one Radeon AI PRO R9700 without resizable BAR\n"
            "rx7900xtx-raphael  a Radeon RX 7900 XTX beside the GPU of a Ryzen 7000, which has no unique id\n"
            "strix-halo         a Ryzen AI Max+ 395: one APU without unique id, computing in half of its memory\n"
        ),
        "",
    )


def test_build_says_how_to_use_what_it_built(tmp_path):
    assert simulate("build", "mi210-4", f"{tmp_path}/host") == (
        0,
        (
            f"Built mi210-4 in {tmp_path}/host\n"
            f"Serve it to any program of the toolkit with AMD_CTK_HOST_ROOT={tmp_path}/host\n"
        ),
        "",
    )
    assert len(find_gpus(Host(tmp_path / "host"))) == 4


def test_record_writes_what_build_reads(tmp_path):
    build_host(tmp_path / "host", "mi210-4")

    assert simulate("record", f"{tmp_path}/mine.json", AMD_CTK_HOST_ROOT=f"{tmp_path}/host") == (
        0,
        (
            f"Wrote {tmp_path}/mine.json: 4 GPUs of a recorded host\n"
            "Unique ids are made up, --with-serials keeps the real ones.\n"
        ),
        "",
    )
    assert simulate("build", f"{tmp_path}/mine.json", f"{tmp_path}/copy")[0] == 0
    assert [gpu.kfd_node for gpu in find_gpus(Host(tmp_path / "copy"))] == [4, 5, 3, 2]


@pytest.mark.parametrize("order", [("--with-serials", "{file}"), ("{file}", "--with-serials")])
def test_record_keeps_serials_if_asked(tmp_path, order):
    build_host(tmp_path / "host", "one-gpu")
    file = f"{tmp_path}/mine.json"

    code, answer, _ = simulate(
        "record", *(word.format(file=file) for word in order), AMD_CTK_HOST_ROOT=f"{tmp_path}/host"
    )

    assert (code, answer) == (0, f"Wrote {file}: 1 GPU of a recorded host\nUnique ids are real.\n")
    assert load_profile(file).gpus[0].pci_unique_id == 0xB7054E91D3FA682C


@pytest.mark.parametrize(
    "arguments",
    [("build",), ("build", "one-gpu"), ("record", "--with-serials"), ("list", "all"), ("destroy", "host")],
)
def test_an_invalid_command_line_exits_with_2(arguments):
    code, printed, errors = simulate(*arguments)

    assert (code, printed) == (2, "")
    assert errors.startswith("Usage: amdgpu-simulator")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(arguments):
    code, printed, errors = simulate(*arguments)

    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in printed.partition("Commands:\n")[2].splitlines()] == [
        *("list", "build", "record", "run", "break"),
    ]


def test_examples_have_the_name_of_the_program():
    assert simulate("build", "--help")[1].endswith("Examples:\n  amdgpu-simulator build mi210-4 server\n")


def test_a_directory_that_is_in_use_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    assert simulate("build", "one-gpu", str(tmp_path)) == (
        5,
        "",
        f"{tmp_path} is not empty and not a simulated host (name a new or empty directory)\n",
    )


def test_a_record_that_cannot_be_written_is_refused(tmp_path):
    build_host(tmp_path / "host", "one-gpu")

    assert simulate("record", f"{tmp_path}/no/mine.json", AMD_CTK_HOST_ROOT=f"{tmp_path}/host") == (
        5,
        "",
        f"{tmp_path}/no/mine.json cannot be written: it does not exist\n",
    )
