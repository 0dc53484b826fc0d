"""Slurm's configuration files, as slurmd 22.05 to 26.05 reads them."""

from __future__ import annotations

import pytest

from amd_device_spec.slurm.conf import (
    MOST_DEVICES,
    expand,
    find_device_files,
    find_types,
    matches,
    read_lines,
)
from amd_device_spec.slurm.grammar import parse_lines
from amd_device_spec.slurm_job import SlurmError
from amdgpu_discovery.host import Host


def files(text, node="n1", types=()):
    return find_device_files(parse_lines(text), node, types)


def refused(text, **options):
    with pytest.raises(SlurmError) as refusal:
        files(text, **options)
    return str(refusal.value)


def test_devices_are_numbered_in_the_order_of_the_lines():
    assert files(
        "Name=gpu Type=mi210 File=/dev/dri/renderD130\n"
        "# Name=gpu File=/dev/dri/renderD200\n"
        "NAME=GPU Type=mi210 file=/dev/dri/renderD[128-129] Flags=amd_gpu_env # two of them\n"
        "Name=nic File=/dev/nic0\n"
        "Name=gpu Type=mi210 \\\n  File=/dev/dri/renderD131,/dev/dri/renderD132\n"
    ) == [f"/dev/dri/renderD{minor}" for minor in (130, 128, 129, 131, 132)]


def test_only_the_lines_of_the_node_count_and_those_of_all_nodes_come_first():
    text = "NodeName=n[1-3] Name=gpu File=/dev/a\nNodeName=m1 Name=gpu File=/dev/b\nName=gpu File=/dev/c\n"

    assert files(text, "n2") == ["/dev/c", "/dev/a"]
    assert files(text, "m1") == ["/dev/c", "/dev/b"]
    assert files(text, "n4") == ["/dev/c"]


def test_types_come_in_the_order_of_slurm_conf():
    text = "Name=gpu Type=b File=/dev/0\nName=gpu Type=a File=/dev/1\nName=gpu Type=b File=/dev/2\n"

    assert files(text, types=["a", "b"]) == ["/dev/1", "/dev/0", "/dev/2"]
    assert refused(text, types=["a"]) == (
        "slurm.conf gives n1 no GPUs of the type 'b' (write gres.conf as 'amd-ctk slurm gres' prints it)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AutoDetect=rsmi\n", "gres.conf has AutoDetect, so Slurm numbers GPUs in its own order"),
        ("Name=gpu AutoDetect=rsmi\n", "gres.conf has AutoDetect, so Slurm numbers GPUs in its own order"),
        ("Name=gpu Count=4\n", "gres.conf has GPUs of n1 without File="),
        ("Name=gpu MultipleFiles=/dev/a,/dev/b\n", "gres.conf has GPUs of n1 without File="),
        ("Include /etc/slurm/more.conf\n", "Slurm's configuration includes /etc/slurm/more.conf, which is not read"),
    ],
)
def test_an_order_that_cannot_be_known_is_refused(text, message):
    assert refused(text) == f"{message} (write gres.conf as 'amd-ctk slurm gres' prints it)"


def test_autodetect_of_another_node_does_not_count():
    assert files("NodeName=n2 AutoDetect=rsmi\nName=gpu File=/dev/a\n") == ["/dev/a"]
    assert files("AutoDetect=rsmi\nNodeName=n1 AutoDetect=off\nName=gpu File=/dev/a\n") == ["/dev/a"]
    assert refused("NodeName=n[1-2] AutoDetect = rsmi\nName=gpu File=/dev/a\n").startswith("gres.conf has AutoDetect,")


def test_autodetect_may_be_off():
    assert files("AutoDetect=off\nName=gpu File=/dev/a\n") == ["/dev/a"]


def test_types_of_a_node():
    lines = parse_lines(
        "NodeName=DEFAULT CPUs=64\n"
        "NodeName=n[01-16] Gres=gpu:mi210:2(S:0),nic:1,gpu:mi300x:2\n"
        'NodeName=m1 Gres="gpu:mi250x:8"\n'
    )

    assert find_types(lines, "n07") == ["mi210", "mi300x"]
    assert find_types(lines, "m1") == ["mi250x"]
    assert find_types(lines, "n7") == []


@pytest.mark.parametrize(
    ("expression", "name", "expected"),
    [
        ("n1", "n1", True),
        ("n1", "n11", False),
        ("n[1-3,7]", "n7", True),
        ("n[1-3,7]", "n5", False),
        ("n[01-16]", "n07", True),
        ("n[01-16]", "n7", False),
        ("n[1-16]", "n07", False),
        ("r[1-2]n[1-4]x", "r2n4x", True),
        ("r[1-2]n[1-4]x", "r2n4", False),
        ("login,n[1-2]", "n2", True),
        ("n[0-2]", "n0", True),
        ("n[", "n1", False),
        ("n[1", "n1", True),
        ("[a-b]", "a", False),
    ],
)
def test_names_of_nodes(expression, name, expected):
    assert matches(expression, name) is expected


@pytest.mark.timeout(5)
@pytest.mark.parametrize("name", ["1" * 5000, "n" + "1" * 5000, "n1" * 30_000])
def test_a_name_of_any_length_costs_little(name):
    assert not matches("n[1-999999999][1-999999999],[1-999999999][1-999999999]", name)


def test_a_name_in_a_message_is_bounded_and_printable():
    message = refused("Name=gpu Count=2\n", node="\033[2J" + "x" * 100)

    assert message.startswith(f"gres.conf has GPUs of '\\x1b[2J{'x' * 56}...' without File= ")


def test_lists_of_devices():
    assert expand("/dev/a[08-10,3],/dev/b") == ["/dev/a08", "/dev/a09", "/dev/a10", "/dev/a3", "/dev/b"]


@pytest.mark.parametrize("expression", ["/dev/a[0-999999999]", "/dev/[0-99][0-99]"])
def test_a_list_without_end_costs_little(expression):
    with pytest.raises(SlurmError, match=f"gres.conf names more than {MOST_DEVICES} devices"):
        expand(expression)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("expression", ["/dev/a[0-999999999][", "/dev/a[0-999999999][x]"])
def test_a_list_of_no_names_costs_little(expression):
    assert expand(expression) == []


@pytest.mark.timeout(5)
@pytest.mark.parametrize("expression", ["[0-999999999]" * 14, "[0]" * 3000])
def test_a_name_with_many_brackets_is_refused(expression):
    said = "in Slurm's configuration has more than 4 brackets"

    with pytest.raises(SlurmError, match=said):
        expand(expression)
    with pytest.raises(SlurmError, match=said):
        matches(f"login,{expression}", "1" * 64)


def test_a_file_without_end_is_not_read(tmp_path):
    with open(tmp_path / "gres.conf", "wb") as file:
        file.truncate(2**20 + 1)

    with pytest.raises(SlurmError, match=r"/gres\.conf has 1048577 bytes, and 1048576 are read at most"):
        read_lines(Host(tmp_path), "/gres.conf")
