"""The grammar in which users name GPUs, the same for environment, CDI, Swarm and command line.

A request is a list separated by commas. Its items: a number (`3`), a range (`0-2`), `all`, a unique id as any of AMD's
tools prints it (`0x8DA82C12EF81B5D`, `8da82c12ef81b5d`, `GPU-08da82c12ef81b5d`), a PCI address (`0000:03:00.0`); behind
an id or an address `:p1` means one partition. Each may be written as a CDI name (`amd.com/gpu=3`). An empty request,
`none` and `void` ask for no GPU.
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import GpuLocation, parse_pci_address
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from amdgpu_discovery.unknown_gpus import BrokenRange, UnknownGpu

    # The numbers an item names, and what is wrong with it.
    Resolved = tuple[range | list[int], UnknownGpu | BrokenRange | None]

CDI_PREFIX = "amd.com/gpu="
NO_GPU = ("", "none", "void")
ALL = "all"

# Shorter words of hexadecimal digits are GPU numbers; upstream draws the line here too.
LONGEST_NUMBER = 8
# Far more than a host has GPUs: each is compared with every GPU, as root and before any limit of the container's.
MOST_ITEMS = 1024


class Resolution(Value):
    """What a request means on this host: the `gpus` it names, by number, and what in it cannot be met."""

    gpus: tuple[GpuLocation, ...]
    unknown: tuple[UnknownGpu, ...]
    broken_ranges: tuple[BrokenRange, ...]

    @property
    def problems(self) -> tuple[RequestError, ...]:
        """Return what cannot be met, in the order in which it is said."""
        return (*self.broken_ranges, *self.unknown)


def asks_for_nothing(request: str) -> bool:
    """Return whether a request is one of the ways to say "no GPU"."""
    return request.strip().lower() in NO_GPU


def select_gpus(gpus: Sequence[GpuLocation], request: str) -> list[GpuLocation]:
    """Return the GPUs a request names, by number and each once; RequestError unless all of it can be met.

    `gpus` are all GPUs of the host in the order of their numbers.
    """
    resolution = resolve(gpus, request)
    for problem in resolution.problems:
        raise problem
    return list(resolution.gpus)


def resolve(gpus: Sequence[GpuLocation], request: str) -> Resolution:
    """Return what of a request can be met and what cannot; RequestError only where it names too many things."""
    chosen: set[int] = set()
    problems: list[RequestError] = []
    for item in _split(request):
        numbers, problem = _resolve_item(gpus, item)
        chosen.update(numbers)
        if problem:
            problems.append(problem)
    found = tuple(gpus[number] for number in sorted(chosen))
    if not problems:
        return Resolution(gpus=found, unknown=(), broken_ranges=())
    from amdgpu_discovery.unknown_gpus import BrokenRange, UnknownGpu

    return Resolution(
        gpus=found,
        unknown=tuple(problem for problem in problems if isinstance(problem, UnknownGpu)),
        broken_ranges=tuple(problem for problem in problems if isinstance(problem, BrokenRange)),
    )


def is_identity(item: str) -> bool:
    """Return whether an item names a GPU by unique id or PCI address, which no other kind of device shares."""
    name = item.strip().removeprefix(CDI_PREFIX)
    whole, is_partition, rank = name.rpartition(":p")
    name = whole if is_partition and rank.isdecimal() else name
    return parse_pci_address(name) is not None or parse_unique_id(name) is not None


def _split(request: str) -> list[str]:
    """Return the items of a request, each once."""
    if asks_for_nothing(request):
        return []
    items = list(dict.fromkeys(item.strip().removeprefix(CDI_PREFIX) for item in request.split(",")))
    if len(items) > MOST_ITEMS:
        raise RequestError(f"a request of {len(items)} items is too long", hint=f"at most {MOST_ITEMS} are read")
    return items


def _resolve_item(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers an item names, and what it names beyond them (a range may do both)."""
    if item.lower() == ALL:
        return range(len(gpus)), None if gpus else _words().no_gpu()
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank)
    named = _resolve_name(gpus, item)
    if named is not None:
        return [gpu.number for gpu in named[0]], named[1]
    first, is_range, last = item.partition("-")
    if is_range:
        return _resolve_range(gpus, item, first.strip(), last.strip())
    return _resolve_number(gpus, item)


def _resolve_partition(gpus: Sequence[GpuLocation], name: str, rank: str) -> Resolved:
    named = _resolve_name(gpus, name)
    if named is None:
        return [], _words().names_no_partition(f"{name}:p{rank}")
    siblings, problem = named
    chosen = [gpu.number for gpu in siblings if gpu.partition_rank == _parse_number(rank)]
    if not (chosen or problem):
        problem = _words().no_such_partition(f"{name}:p{rank}", [gpu.partition_rank for gpu in siblings])
    return chosen, problem


def _resolve_name(gpus: Sequence[GpuLocation], item: str) -> tuple[list[GpuLocation], UnknownGpu | None] | None:
    """Return the GPUs that share a unique id or a PCI address; None if the item is neither."""
    address = parse_pci_address(item)
    if address:
        found = [gpu for gpu in gpus if gpu.pci_address == address]
        return found, None if found else _words().no_gpu_at(str(address), item, gpus)
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    # 0 stands for "has none", on every APU alike.
    found = [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    return found, None if found else _words().no_gpu_with_id(item, gpus)


def parse_unique_id(item: str) -> int | None:
    """Read a unique id in any of its spellings; None if it is none."""
    lower = item.lower()
    for prefix in ("0x", "gpu-", ""):
        if lower.startswith(prefix) and (prefix or len(lower) > LONGEST_NUMBER):
            digits = lower[len(prefix) :]
            return int(digits, 16) if digits and not digits.strip("0123456789abcdef") else None
    return None


def _resolve_range(gpus: Sequence[GpuLocation], item: str, first: str, last: str) -> Resolved:
    low, high = _parse_number(first), _parse_number(last)
    if low is None or high is None:
        return [], _words().broken_range(item, "write the first and the last number, such as 0-2")
    if low > high:
        return [], _words().broken_range(item, f"write {high}-{low}")
    # Compared before it is expanded: 0-9999999999 in an image must cost nothing.
    if high < len(gpus):
        return range(low, high + 1), None
    return range(low, len(gpus)), _words().unknown_numbers(gpus, max(low, len(gpus)), high)


def _resolve_number(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    number = _parse_number(item)
    if number is None:
        return [], _words().not_a_gpu(item, gpus)
    if number >= len(gpus):
        return [], _words().unknown_numbers(gpus, number, number)
    return [number], None


def _parse_number(text: str) -> int | None:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # More digits than any host has GPUs; python refuses to read thousands of them.
    return int(digits.lstrip("0")[:20] or "0")


def _words() -> ModuleType:
    """Return the sentences, which requests that can be met do without."""
    from amdgpu_discovery import unknown_gpus

    return unknown_gpus
