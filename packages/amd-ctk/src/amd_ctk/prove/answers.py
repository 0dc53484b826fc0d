"""Parse the answers of the probe in a container, and judge whether the container got what it requested."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.gpu import MEBIBYTE, Gpu
from amdgpu_discovery.usage.amounts import parse_optional
from amdgpu_discovery.usage.memory_limits import region_of
from amdgpu_discovery.value import Value

OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"
NO_GPU = "no GPU"
# No driver answers behind the node, as on a simulated host, whose nodes only have the numbers of GPUs.
NO_DEVICE_ERRORS = (errno.ENXIO, errno.ENODEV)
# 512 GPUs need a handful of lines each.
LARGEST_PROBE_ANSWER = 1 << 20


class Answers(Value):
    """The kernel's answers: error numbers by the node that was opened, and what the nodes gave access to."""

    # Errors of open() by path, 0 for success; and errors of the driver's ioctl by path.
    opened: dict[str, int]
    ioctls: dict[str, int]
    # The GPUs that KFD lists: `gpu_id` of its topology.
    listed: tuple[int, ...]
    # PCI device ids by path of the render node.
    devices: dict[str, int]
    # For GPUs that the container was not given, by render minor: errors of making the node and of opening it.
    created: dict[int, int]
    foreign: dict[int, int]
    # The limits of the container on the memory of GPUs, in bytes by region.
    limits: dict[str, int]


class Proof(Value):
    """The result for one GPU with one engine: `state` is OK, FAILED, SKIPPED or NO_GPU, and `words` explain it."""

    engine: str
    gpu: int
    state: str
    words: str


def parse_answers(text: str) -> Answers:
    """Parse the answers that a probe printed; other lines are ignored."""
    answers = Answers(opened={}, ioctls={}, listed=(), devices={}, created={}, foreign={}, limits={})
    by_path = {"open": answers.opened, "ask": answers.ioctls, "device": answers.devices}
    by_minor = {"make": answers.created, "foreign": answers.foreign}
    listed = []
    for line in text[:LARGEST_PROBE_ANSWER].splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "limit":
            answers.limits[words[1]] = parse_optional(words[2]) or 0
        if len(words) != 3 or not _is_number(words[2]):
            continue
        kind, subject, number = words[0], words[1], int(words[2])
        if kind in by_path:
            by_path[kind][subject] = number
        elif kind == "listed" and _is_number(subject):
            listed.append(int(subject))
        elif kind in by_minor and _is_number(subject):
            by_minor[kind][int(subject)] = number
    return answers.replace(listed=tuple(listed))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


def judge(answers: Answers, requested: Gpu, gpus: Sequence[Gpu], *, limit_mib: int = 0) -> tuple[str, str]:
    """Return the state and the words of a proof for a container that requested one GPU of a host, and a limit."""
    state, words = _judge_gpu(answers, requested, gpus)
    if state != OK or not limit_mib:
        return state, words
    limit = answers.limits.get(region_of(requested), 0)
    if not 0 < limit <= limit_mib * MEBIBYTE:
        return FAILED, f"the kernel has no limit of {limit_mib} MiB for the container"
    return OK, f"{words}; limited to {limit // MEBIBYTE} MiB"


def _judge_gpu(answers: Answers, requested: Gpu, gpus: Sequence[Gpu]) -> tuple[str, str]:
    """Return the state and the words for the GPU itself.

    A GPU counts as usable if KFD lists it and its render node opens. Rootless engines have no device cgroup, so KFD's
    list alone proves nothing there.
    """
    if KFD_PATH not in answers.opened:
        return FAILED, "the container has no /dev/kfd"
    refused = {path: number for path, number in answers.opened.items() if number}
    if refused and all(number in NO_DEVICE_ERRORS for number in refused.values()):
        return NO_GPU, "no driver answers behind the nodes: this is not a GPU"
    if answers.opened[KFD_PATH] or KFD_PATH in answers.ioctls:
        number = answers.opened[KFD_PATH] or answers.ioctls[KFD_PATH]
        return FAILED, f"/dev/kfd: {os.strerror(number)}"
    usable = [gpu for gpu in gpus if gpu.gpu_id in answers.listed and answers.opened.get(gpu.render_path) == 0]
    if [gpu.number for gpu in usable] != [requested.number]:
        return FAILED, f"the container can use {_name(usable)}"
    device = answers.devices.get(requested.render_path)
    if device != requested.device_id:
        return FAILED, f"{requested.render_path} is {f'device {device:#06x}' if device else 'no AMD GPU'}"
    return _judge_foreign(answers, [gpu for gpu in gpus if gpu.number != requested.number])


def _name(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no GPU"
    numbers = ", ".join(str(gpu.number) for gpu in gpus)
    return f"GPUs {numbers}" if len(gpus) > 1 else f"GPU {numbers}"


def _describe(number: int | None) -> str:
    """Return what became of an attempt to open a node; its error `number` is None if there was none."""
    if number is None:
        return "was not tried"
    return f"answers {os.strerror(number)}" if number else "opens"


def _judge_foreign(answers: Answers, others: Sequence[Gpu]) -> tuple[str, str]:
    """Judge the nodes of all other GPUs, which root in the container tried to make and open."""
    for gpu in others:
        if answers.created.get(gpu.render_minor):
            # In a user namespace nobody can make a node, so only existing ones count.
            continue
        number = answers.foreign.get(gpu.render_minor)
        if number != errno.EPERM:
            return FAILED, f"GPU {gpu.number}, which it was not given, {_describe(number)}"
    if not others:
        return OK, "opens and answers; there is no other GPU"
    made = any(answers.created.get(gpu.render_minor) == 0 for gpu in others)
    return OK, "opens and answers; other GPUs are refused" if made else "opens and answers; has no node of other GPUs"
