"""Made-up answers of the kernel, and what they prove."""

from __future__ import annotations

import pytest

from amd_ctk.prove.answers import judge, parse_answers
from amdgpu_discovery.discover import find_gpus

RIGHT = """\
open /dev/kfd 0
listed 12261 0
open /dev/dri/renderD130 0
device /dev/dri/renderD130 29711
make 131 0
foreign 131 1
make 129 0
foreign 129 1
make 128 0
foreign 128 1
"""
ROOTLESS = """\
open /dev/kfd 0
listed 12261 0
listed 51030 0
open /dev/dri/renderD130 0
device /dev/dri/renderD130 29711
make 131 1
make 129 1
make 128 1
"""


@pytest.fixture
def gpus(host):
    return find_gpus(host("mi210-4"))


def proved(text, gpus):
    return judge(parse_answers(text), gpus[0], gpus)


def test_the_gpu_that_was_asked_for_and_no_other_is_proved(gpus):
    assert proved(RIGHT, gpus) == ("ok", "opens and answers; other GPUs are refused")


LIMIT = "limit drm/0000:03:00.0/vram 1073741824\n"


def test_a_limit_that_the_kernel_has_is_proved(gpus):
    answers = parse_answers(RIGHT + LIMIT)

    assert judge(answers, gpus[0], gpus, limit_mib=1024) == (
        "ok",
        "opens and answers; other GPUs are refused; limited to 1024 MiB",
    )


@pytest.mark.parametrize(
    "limit",
    ["", LIMIT.replace("1073741824", "max"), LIMIT.replace("1073741824", "2147483648"), LIMIT.replace("03:", "26:")],
)
def test_a_limit_that_the_kernel_does_not_have_fails(gpus, limit):
    answers = parse_answers(RIGHT + limit)

    assert judge(answers, gpus[0], gpus, limit_mib=1024) == (
        "failed",
        "the kernel has no limit of 1024 MiB for the container",
    )


def test_without_a_device_cgroup_a_gpu_without_a_node_is_of_no_use(gpus):
    assert proved(ROOTLESS, gpus) == ("ok", "opens and answers; has no node of other GPUs")


def test_a_host_with_one_gpu_has_no_other_to_refuse(gpus):
    assert judge(parse_answers(RIGHT), gpus[0], gpus[:1]) == ("ok", "opens and answers; there is no other GPU")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("open /dev/kfd 0\n", "", "the container has no /dev/kfd"),
        ("open /dev/kfd 0\n", "open /dev/kfd 13\n", "/dev/kfd: Permission denied"),
        ("open /dev/kfd 0\n", "open /dev/kfd 0\nask /dev/kfd 22\n", "/dev/kfd: Invalid argument"),
        ("listed 12261 0\n", "", "the container can use no GPU"),
        ("listed 12261 0\n", "listed 4711 0\n", "the container can use no GPU"),
        ("open /dev/dri/renderD130 0", "open /dev/dri/renderD130 1", "the container can use no GPU"),
        ("29711", "29712", "/dev/dri/renderD130 is device 0x7410"),
        ("device /dev/dri/renderD130 29711\n", "", "/dev/dri/renderD130 is no AMD GPU"),
        ("foreign 129 1", "foreign 129 0", "GPU 2, which it was not given, opens"),
        ("foreign 129 1", "foreign 129 13", "GPU 2, which it was not given, answers Permission denied"),
        ("foreign 129 1", "foreign 129 6", "GPU 2, which it was not given, answers No such device or address"),
        ("make 129 0\nforeign 129 1\n", "", "GPU 2, which it was not given, was not tried"),
    ],
)
def test_every_other_answer_proves_nothing(gpus, old, new, words):
    assert old in RIGHT
    assert proved(RIGHT.replace(old, new), gpus) == ("failed", words)


def test_one_gpu_too_many_is_a_failure(gpus):
    more = RIGHT.replace("listed 12261 0\n", f"listed 12261 0\nlisted {gpus[1].gpu_id} 0\n")
    opens = more.replace("open /dev/dri/renderD130 0\n", "open /dev/dri/renderD130 0\nopen /dev/dri/renderD131 0\n")

    assert proved(more, gpus)[0] == "ok"
    assert proved(opens, gpus) == ("failed", "the container can use GPUs 0, 1")


def test_nodes_without_a_driver_are_no_gpu(gpus):
    text = "open /dev/kfd 6\nopen /dev/dri/renderD130 6\nmake 129 0\nforeign 129 1\n"

    assert proved(text, gpus) == ("no GPU", "no driver answers behind the nodes: this is not a GPU")


def test_lines_that_are_no_answers_are_passed_over():
    read = parse_answers("hello\nopen /dev/kfd x\nlisted 1 2 3\nlisted abc 0\nopen /dev/kfd " + "9" * 5000 + "\n")

    assert (read.opened, read.listed) == ({}, ())
