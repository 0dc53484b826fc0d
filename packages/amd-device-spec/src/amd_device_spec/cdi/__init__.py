"""CDI specs: here which names their devices may have, and which names the GPUs of a host get.

Source of the rules: CDI specification, "Kind" and "Devices", and additional checks of its Go library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from amdgpu_discovery.gpu import Gpu

VENDOR = "amd.com"
DEVICE_CLASS = "gpu"
KIND = f"{VENDOR}/{DEVICE_CLASS}"
ALL = "all"
# Prefix of devices that are groups of the settings.
GROUP_PREFIX = "group-"

INDEX_NAMES = "index"
UUID_NAMES = "uuid"
PCI_NAMES = "pci"
ALL_NAMES = "all-of-them"
STRATEGIES = (INDEX_NAMES, UUID_NAMES, PCI_NAMES, ALL_NAMES)

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
ALPHANUMERIC = LETTERS | frozenset("0123456789")
LABEL_CHARACTERS = ALPHANUMERIC | frozenset("_-.")
DEVICE_CHARACTERS = LABEL_CHARACTERS | frozenset(":")


def names_of(
    gpus: Sequence[Gpu], strategy: str, *, with_all: bool = True, by_model: bool = False
) -> dict[str, list[Gpu]]:
    """Return the GPUs behind each CDI device name: numbers, `all`, then unique ids and PCI addresses by `strategy`.

    A unique id is written as rocm-smi prints it (lower case), as `amd-smi static` does (upper case) and as `amd-smi
    list` does (a UUID: one for all partitions before amd-smi 10, and one for each since). A name that partitions share
    means all of them; with `:p<rank>` behind it, it means one. With `by_model`, a model or a target is the name of all
    its GPUs.
    """
    named = {str(gpu.number): [gpu] for gpu in gpus}
    if with_all:
        named[ALL] = list(gpus)
    if strategy in (UUID_NAMES, ALL_NAMES):
        named |= _shared_names(gpus, _unique_ids)
    if strategy in (PCI_NAMES, ALL_NAMES):
        named |= _shared_names(gpus, lambda gpu: [str(gpu.pci_address)])
    if by_model:
        named |= _model_names(gpus)
    return named


def kind_problem(kind: str) -> str:
    """Return what is wrong with `vendor/class`, "" if it is valid."""
    vendor, slash, device_class = kind.partition("/")
    if not slash:
        return "is not of the form vendor/class"
    if problem := label_problem(vendor):
        return f"has a vendor that {problem}"
    if problem := label_problem(device_class):
        return f"has a class that {problem}"
    return ""


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a device, "" if it is valid."""
    if not name:
        return "is empty"
    if name[0] not in ALPHANUMERIC or name[-1] not in ALPHANUMERIC:
        return "does not begin and end with a letter or digit"
    return _character_problem(name, DEVICE_CHARACTERS)


def _model_names(gpus: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """Return the GPUs of each model (`MI210`) and of each target (`gfx90a`)."""
    from amdgpu_discovery.tables.models import model_of

    gpus_by_name: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        for name in dict.fromkeys(filter(None, (model_of(gpu), gpu.gfx_target))):
            gpus_by_name.setdefault(name, []).append(gpu)
    return gpus_by_name


def label_problem(label: str) -> str:
    """Return what is wrong with the vendor or the class of a kind, "" if it is valid."""
    # One letter is legal, but crashes dockerd 28.
    if len(label) < 2:
        return "has fewer than two characters"
    if label[0] not in LETTERS:
        return "does not begin with a letter"
    if label[-1] not in ALPHANUMERIC:
        return "does not end with a letter or digit"
    return _character_problem(label, LABEL_CHARACTERS)


def _character_problem(text: str, allowed: frozenset[str]) -> str:
    wrong = sorted(set(text) - allowed)
    return f"contains {', '.join(map(ascii, wrong))}" if wrong else ""


def _unique_ids(gpu: Gpu) -> Iterator[str]:
    from amdgpu_discovery.choices.selection import format_smi_uuid

    for unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id):
        # 0 means that the GPU has no such id.
        if unique_id:
            yield f"0x{unique_id:X}"
            yield f"0x{unique_id:x}"
    if gpu.pci_unique_id:
        yield format_smi_uuid(gpu.pci_unique_id, gpu.device_id)
        yield format_smi_uuid(gpu.pci_unique_id, gpu.device_id, gpu.partition_rank)


def _shared_names(gpus: Sequence[Gpu], names: Callable[[Gpu], Iterator[str] | list[str]]) -> dict[str, list[Gpu]]:
    gpus_by_name: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        for name in dict.fromkeys(names(gpu)):
            gpus_by_name.setdefault(name, []).append(gpu)
    shared = {name: sharing for name, sharing in gpus_by_name.items() if len(sharing) > 1}
    return gpus_by_name | {
        f"{name}:p{gpu.partition_rank}": [gpu] for name, sharing in shared.items() for gpu in sharing
    }
