"""What ROCm makes of its variables: which GPUs a program sees, in which order, and for which targets.

The rules are those of ROCm's sources, by the project that reads a variable:

- libhsakmt, src/topology.c: a program gets no GPU at all if one `HSA_OVERRIDE_GFX_VERSION` that counts is no version.
  `HSA_OVERRIDE_GFX_VERSION_<node>` (ROCm 6.2 and later) counts before it. Nodes are counted as the program sees them:
  processors, then its GPUs in KFD's order.
- ROCr, core/util/flag.h and core/runtime/amd_filter_device.cpp: `ROCR_VISIBLE_DEVICES` filters if it is set; empty, it
  selects nothing. Words are trimmed; a number may be octal or hexadecimal, an id may be shortened. A word that names no
  GPU, or one again, ends the list. An empty word raises an exception.
- CLR, rocclr/utils/flags.cpp and rocclr/device/rocm/rocdevice.cpp: HIP reads `HIP_VISIBLE_DEVICES`, or
  `CUDA_VISIBLE_DEVICES` if that is empty; OpenCL reads `GPU_DEVICE_ORDINAL`. They count what ROCr leaves. Quotes around
  the whole value are taken off. A word is a number as printed; one that is not ends the list, one again is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.tables.targets import OVERRIDE, parse_override
from amdgpu_discovery.value import Value

ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
OPENCL = "GPU_DEVICE_ORDINAL"
FILTERS = (ROCR, HIP, CUDA, OPENCL)
# The variables that count here begin so.
BEGINNINGS = (*(f"{name}=" for name in FILTERS), OVERRIDE)
BLANKS = " \t\n\v\f\r"
# What strtol reads with the base 0, in capitals.
NUMBER = re.compile("([+-]?)(0X[0-9A-F]+|0[0-7]*|[1-9][0-9]*)")
QUOTED = re.compile(' *"(.*)" *', re.DOTALL)
SHORTEST_ID, LONGEST_ID = 5, 20
NEWER_HIP_HIDES = "; newer releases of HIP hide everything: leave it out"
NEWER_HIP_KNOWS_IDS = "; earlier releases of HIP know no ids, and hide everything"


class Inside(Value):
    """The GPUs in the order of HIP, and what each variable about GPUs does.

    `hidden_by` is the variable that hides the last GPU. `problem` says why ROCm lists no GPU at all.
    """

    hip_gpus: tuple[GpuLocation, ...]
    effect_by_variable: dict[str, str]
    hidden_by: str = ""
    problem: str = ""


class Override(Value):
    """The variable that gives a GPU another target; "" for the target if ROCm refuses the value."""

    gpu: GpuLocation
    name: str
    target: str


def see_gpus(gpus: Sequence[GpuLocation], environment: Mapping[str, str], *, processors: int = 1) -> Inside:
    """Return what programs see of these GPUs. `processors` is the number of KFD's nodes that are no GPUs."""
    overrides = find_overrides(gpus, environment, processors=processors)
    filtered = _filter(sorted(gpus, key=lambda gpu: gpu.kfd_node), environment)
    words = {**_describe_overrides(gpus, environment, overrides), **filtered.effect_by_variable}
    wrong = next((one for one in overrides if not one.target), None)
    if wrong is None:
        return filtered.replace(effect_by_variable=words)
    value = f"{wrong.name}={shown(environment[wrong.name])}"
    problem = f"{value} is not a version, so ROCm lists no GPU: leave it out, or write it as 10.3.0"
    return Inside(hip_gpus=(), effect_by_variable=words, hidden_by=wrong.name, problem=problem)


def find_overrides(
    gpus: Sequence[GpuLocation], environment: Mapping[str, str], *, processors: int = 1
) -> list[Override]:
    """Return the variables that give GPUs other targets, in KFD's order."""
    found = []
    for node, gpu in enumerate(sorted(gpus, key=lambda gpu: gpu.kfd_node), processors):
        name = next((name for name in (f"{OVERRIDE}_{node}", OVERRIDE) if name in environment), "")
        if name:
            found.append(Override(gpu=gpu, name=name, target=parse_override(environment[name])))
    return found


def _describe_overrides(
    gpus: Sequence[GpuLocation], environment: Mapping[str, str], overrides: Sequence[Override]
) -> dict[str, str]:
    words = {}
    for name in (name for name in environment if name == OVERRIDE or name.startswith(f"{OVERRIDE}_")):
        numbers = sorted(one.gpu.number for one in overrides if one.name == name)
        target = parse_override(environment[name])
        whose = "every GPU inside" if len(numbers) == len(gpus) else f"GPU {', '.join(map(str, numbers))}"
        if gpus and not numbers:
            words[name] = "is read for no GPU of the container"
        else:
            end = "" if name == OVERRIDE else ", since ROCm 6.2"
            words[name] = (
                f"makes ROCm take {whose} for {target}{end}" if target else "is not a version: ROCm lists no GPU"
            )
    return words


def _filter(visible: list[GpuLocation], environment: Mapping[str, str]) -> Inside:
    found = Inside(hip_gpus=tuple(visible), effect_by_variable={})
    if ROCR in environment:
        found = _keep(found, ROCR, _select_as_rocr(visible, environment[ROCR]), "ROCm")
    left = list(found.hip_gpus)
    for name in [HIP, CUDA]:
        if name not in environment:
            continue
        value = _unquote(environment[name])
        is_counted = name == HIP or not _unquote(environment.get(HIP, ""))
        if not is_counted:
            words = f"not counted: {HIP} is set"
            found = found.replace(effect_by_variable={**found.effect_by_variable, name: words})
        elif not value:
            found = _keep(found, name, left, "HIP", "" if environment[name] else NEWER_HIP_HIDES)
        else:
            end = NEWER_HIP_KNOWS_IDS if "GPU-" in value else ""
            found = _keep(found, name, _select_as_hip(left, value), "HIP", end)
    if OPENCL in environment:
        chosen = _select_as_hip(left, _unquote(environment[OPENCL])) if _unquote(environment[OPENCL]) else left
        words = f"counts for OpenCL only: {_describe(left, chosen, 'it')}"
        found = found.replace(effect_by_variable={**found.effect_by_variable, OPENCL: words})
    return found


def _keep(found: Inside, name: str, left: Sequence[GpuLocation], counter: str, end: str = "") -> Inside:
    words = f"{_describe(found.hip_gpus, left, counter)}{end if found.hip_gpus else ''}"
    return Inside(
        hip_gpus=tuple(left),
        effect_by_variable={**found.effect_by_variable, name: words},
        hidden_by=name if found.hip_gpus and not left else found.hidden_by,
    )


def _describe(visible: Sequence[GpuLocation], left: Sequence[GpuLocation], counter: str) -> str:
    if not visible:
        return "hides nothing: the container has no GPU"
    if not left:
        return f"hides everything: {_count(len(visible), counter)}"
    if len(left) == len(visible):
        return f"hides nothing: {_count(len(visible), counter)}"
    numbers = ", ".join(str(gpu.number) for gpu in left)
    return f"leaves GPU{'s' if len(left) > 1 else ''} {numbers} of this host: {_count(len(visible), counter)}"


def _count(total: int, counter: str) -> str:
    if total == 1:
        return f"the container sees one GPU, which {counter} counts 0"
    return f"the container sees {total} GPUs, which {counter} counts 0-{total - 1}"


def _select_as_rocr(visible: Sequence[GpuLocation], value: str) -> list[GpuLocation]:
    words = value.split(",")
    # As getline reads them: nothing follows the last comma.
    words = words[:-1] if words[-1] == "" else words
    left: list[GpuLocation] = []
    for word in words[: len(visible)]:
        token = word.strip(BLANKS).upper()
        if not token:
            return []
        gpu = _find_by_id(visible, token) if token.startswith("G") else _find_by_number(visible, token)
        if gpu is None or gpu in left:
            break
        left.append(gpu)
    return left


def _find_by_id(visible: Sequence[GpuLocation], token: str) -> GpuLocation | None:
    """Return the only GPU whose id begins so."""
    if not SHORTEST_ID <= len(token) <= LONGEST_ID:
        return None
    found = [gpu for gpu in visible if gpu.kfd_unique_id and _id_of(gpu).upper().startswith(token)]
    return found[0] if len(found) == 1 else None


def _find_by_number(visible: Sequence[GpuLocation], token: str) -> GpuLocation | None:
    found = NUMBER.fullmatch(token)
    if not found:
        return None
    sign, digits = found.groups()
    base = 8 if digits.startswith("0") else 10
    if digits.startswith("0X"):
        base = 16
    # Of a number too long for 64 bits C takes the nearest one; ROCr keeps the last 32 bits of any.
    value = int(f"{sign}{digits}", base) if len(digits) <= 64 else int(f"{sign}1") << 64
    index = max(-(2**63), min(value, 2**63 - 1)) & (2**32 - 1)
    return visible[index] if index < len(visible) else None


def _select_as_hip(visible: Sequence[GpuLocation], value: str) -> list[GpuLocation]:
    words = value.split(",")
    words = words[:-1] if words[-1] == "" else words
    index_by_word = {str(index): index for index in range(len(visible))}
    left: list[GpuLocation] = []
    for word in words:
        # Any part of an id names the first GPU that has it.
        named = (index for index, gpu in enumerate(visible) if "GPU-" in word and word in _id_of(gpu))
        index = next(named, index_by_word.get(word, -1))
        if index < 0:
            break
        if visible[index] not in left:
            left.append(visible[index])
    return left


def _id_of(gpu: GpuLocation) -> str:
    """Return the id that ROCr prints, `GPU-XX` for a GPU without one."""
    return f"GPU-{gpu.kfd_unique_id:016x}" if gpu.kfd_unique_id else "GPU-XX"


def _unquote(value: str) -> str:
    quoted = QUOTED.fullmatch(value)
    return quoted[1] if quoted else value
