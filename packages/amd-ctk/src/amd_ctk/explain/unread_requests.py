"""Requests for GPUs that nothing reads: variables of other vendors, misspelled ones, and options behind the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amd_ctk.explain.container import Container
from amd_ctk.rocm_variables import FILTERS
from amd_device_spec.request import VISIBLE_DEVICES
from amdgpu_discovery.choices.selection import asks_for_nothing
from amdgpu_discovery.choices.unknown_gpus import shown

OTHERS = ("NVIDIA_VISIBLE_DEVICES",)
# AMD_VISIBLE_DEVICE and AMD_GPU_VISIBLE_DEVICES are as near; HIP_VISIBLE_DEVICES too, which is known.
NEAR = 0.8
# Values that mean the same to the AMD runtime.
SAME_VALUE = re.compile(r"all|[0-9]+([-,][0-9]+)*")
# Options with which a container gets GPUs, as words joined by a blank. A program may have those of the second kind too.
OPTIONS = re.compile(
    r"--runtime[= ]amd\b|--device[= ](/dev/(kfd|dri)|[\w.-]+/[\w-]+=)|(-e ?|--env[= ])AMD_VISIBLE_DEVICES"
)
ASSIGNMENT = re.compile(rf"\b{VISIBLE_DEVICES}=[^\s;'\"]*")
OPTIONS_OF_PROGRAMS = re.compile(r"--gpus[= ]|--privileged\b|--group-add[= ]")


def find_misplaced(args: Sequence[str]) -> Iterator[str]:
    """Yield the options and variables for an engine among the arguments of a container's program."""
    for position, arg in enumerate(args):
        words = " ".join(args[position : position + 2])
        is_option = OPTIONS.match(words) or (args[0].startswith("-") and OPTIONS_OF_PROGRAMS.match(words))
        if is_option:
            yield arg if "=" in arg or arg == "--privileged" else words
        elif (found := ASSIGNMENT.search(arg)) and args[position - 1] not in ("-e", "--env"):
            yield found[0]


def find_unread_requests(container: Container, *, has_runtime: bool) -> Iterator[str]:
    """Yield why a container without a GPU gets none although someone asked, and the words to add."""
    for option in container.misplaced:
        it = "it" if option.startswith("-") else f"-e {option}"
        yield f"{option} comes after the image, so it is an argument of its program: put {it} before the image"
    variables = dict(entry.partition("=")[::2] for entry in container.environment if "=" in entry)
    if VISIBLE_DEVICES in variables:
        return
    runtime = "" if has_runtime else "--runtime=amd and "
    for name, value in variables.items():
        same = value if SAME_VALUE.fullmatch(value) else "all"
        if name in FILTERS and value:
            yield f"{name} chooses among GPUs that the container has: add {runtime}{VISIBLE_DEVICES}=all"
        elif (name in OTHERS or _is_near(name)) and not asks_for_nothing(value):
            yield f"{shown(name)} is read by nobody here: add {runtime}{VISIBLE_DEVICES}={same}"


def _is_near(name: str) -> bool:
    """Return whether a name is likely to be a misspelled AMD_VISIBLE_DEVICES."""
    # Imported here because 'amd-ctk run' loads this module too.
    from difflib import SequenceMatcher

    return name not in FILTERS and SequenceMatcher(a=VISIBLE_DEVICES, b=name.upper()[:64]).ratio() >= NEAR
