"""The grammar in which users name GPUs, the same for environment, CDI, Swarm and command line.

A request is a list separated by commas. Its items: a number (`3`), a range (`0-2`), `all`, a unique id as any of AMD's
tools prints it (`0x8DA82C12EF81B5D`, `8da82c12ef81b5d`, `GPU-08da82c12ef81b5d`, or the UUID of `amd-smi list`,
`08ff75a3-0000-1000-80da-82c12ef81b5d`), a PCI address (`0000:03:00.0`); behind an id or an address `:p1` means one
partition. Each may be written as a CDI name (`amd.com/gpu=3`). An empty request, `none` and `void` ask for no GPU.
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import GpuLocation, parse_pci_address
from amdgpu_discovery.identities import (
    CDI_PREFIX,
    LONGEST_NUMBER,
    NO_UNIQUE_ID,
    OF_NUMBERS,
    parse_number,
    parse_unique_id,
)
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from amdgpu_discovery.gpu import PciAddress, UnnumberedGpu
    from amdgpu_discovery.unknown_gpus import BrokenRange, UnknownGpu

    # The numbers an item names, and what is wrong with it.
    Resolved = tuple[range | list[int], UnknownGpu | BrokenRange | None]

NO_GPU = ("", "none", "void")
ALL = "all"

# Far more than a host has GPUs: each is compared with every GPU, as root and before any limit of the container's.
MOST_ITEMS = 1024
# MAX_ARG_STRLEN of Linux: no process can be started with a longer variable, so nobody loses anything by this limit.
LONGEST_REQUEST = 128 * 1024


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


def names_numbers(request: str) -> bool:
    """Return whether a request says nothing but numbers, ranges, `all` and nothing at all."""
    return all(
        item in NO_GPU or item == ALL or (not item.strip(OF_NUMBERS) and (len(item) <= LONGEST_NUMBER or "-" in item))
        for item in request[:LONGEST_REQUEST].lower().split(",")
    )


def may_be_choice(request: str) -> bool:
    """Return False where a request certainly names GPUs; `choices.grammar` reads requests that say what is needed."""
    text = request[:LONGEST_REQUEST].lower()
    return "auto" in text or "free" in text or (ALL in text and ("+" in text or "&" in text))


def select_gpus(
    gpus: Sequence[GpuLocation], request: str, *, unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple
) -> list[GpuLocation]:
    """Return the GPUs that `request` names, by number and each once; RequestError unless all of it can be met.

    `gpus` are those that this process may use in the order of their numbers; `unnumbered` finds the GPUs that have no
    number, and is called once, if `request` names an address without a numbered GPU.
    """
    resolution = resolve(gpus, request, unnumbered=unnumbered)
    for problem in resolution.problems:
        raise problem
    return list(resolution.gpus)


def resolve(
    gpus: Sequence[GpuLocation], request: str, *, unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple
) -> Resolution:
    """Return what of a request can be met and what cannot; RequestError only where it is too long.

    `unnumbered` finds the GPUs that have no number; it is called once, if an address without a numbered GPU is named.
    """
    chosen: set[int] = set()
    problems: list[UnknownGpu | BrokenRange] = []
    for item in split_items(request):
        numbers, problem = _resolve_item(gpus, item)
        chosen.update(numbers)
        if problem:
            problems.append(problem)
    found = tuple(gpu for gpu in gpus if gpu.number in chosen)
    if not problems:
        return Resolution(gpus=found, unknown=(), broken_ranges=())
    words = _sentences()
    problems = words.name_unnumbered(problems, unnumbered)
    return Resolution(
        gpus=found,
        unknown=tuple(problem for problem in problems if isinstance(problem, words.UnknownGpu)),
        broken_ranges=tuple(problem for problem in problems if isinstance(problem, words.BrokenRange)),
    )


def split_items(request: str) -> list[str]:
    """Return the items of a request, each once; RequestError where it is too long."""
    if len(request) > LONGEST_REQUEST:
        raise RequestError(
            f"a request of {len(request)} characters is too long", hint=f"at most {LONGEST_REQUEST} are read"
        )
    if asks_for_nothing(request):
        return []
    # Programs that write lists often end them with a comma.
    words = request.strip().removesuffix(",").split(",")
    items = list(dict.fromkeys(word.strip().removeprefix(CDI_PREFIX) for word in words))
    if len(items) > MOST_ITEMS:
        raise RequestError(f"a request of {len(items)} items is too long", hint=f"at most {MOST_ITEMS} are read")
    return items


def _resolve_item(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers an item names, and what it names beyond them (a range may do both)."""
    if item.lower() == ALL:
        return [gpu.number for gpu in gpus], None if gpus else _sentences().no_gpu()
    number = parse_number(item) if len(item) <= LONGEST_NUMBER else None
    if number is not None:
        return _resolve_number(gpus, number)
    first, _, last = item.partition("-")
    low, high = parse_number(first.strip()), parse_number(last.strip())
    if low is None or high is None:
        return _resolve_name(gpus, item)
    return _resolve_range(gpus, item, low, high)


def _resolve_number(gpus: Sequence[GpuLocation], number: int) -> Resolved:
    """Return the GPU of a number."""
    return _resolve_span(gpus, number, number)


def _resolve_range(gpus: Sequence[GpuLocation], item: str, low: int, high: int) -> Resolved:
    if low > high:
        return [], _sentences().broken_range(item, f"write {high}-{low}")
    return _resolve_span(gpus, low, high)


def _resolve_span(gpus: Sequence[GpuLocation], first: int, last: int) -> Resolved:
    # Compared and never expanded: 0-9999999999 in an image must cost nothing.
    numbers = [gpu.number for gpu in gpus if first <= gpu.number <= last]
    return numbers, None if len(numbers) == last - first + 1 else _sentences().missing_numbers(gpus, first, last)


def _resolve_name(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers of the GPUs that an item names, which is neither `all` nor a short number nor a range."""
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank)
    named = _find(gpus, item)
    if named is not None:
        return [gpu.number for gpu in named[0]], named[1]
    if item.lower() == NO_UNIQUE_ID:
        return [], _sentences().no_unique_id(item)
    if "-" in item and not item.strip(OF_NUMBERS):
        return [], _sentences().broken_range(item, "write the first and the last number, such as 0-2")
    number = parse_number(item)
    return ([], _sentences().not_a_gpu(item, gpus)) if number is None else _resolve_number(gpus, number)


def _resolve_partition(gpus: Sequence[GpuLocation], name: str, rank: str) -> Resolved:
    named = _find(gpus, name)
    if named is None:
        return [], _sentences().names_no_partition(f"{name}:p{rank}")
    siblings, problem = named
    chosen = [gpu.number for gpu in siblings if gpu.partition_rank == parse_number(rank)]
    if not (chosen or problem):
        problem = _sentences().no_such_partition(f"{name}:p{rank}", [gpu.partition_rank for gpu in siblings])
    return chosen, problem


def _find(gpus: Sequence[GpuLocation], item: str) -> tuple[list[GpuLocation], UnknownGpu | None] | None:
    """Return the GPUs that share a unique id or a PCI address; None if the item is neither."""
    address = parse_pci_address(item)
    if address:
        found = [gpu for gpu in gpus if gpu.pci_address == address]
        return found, None if found else _no_gpu_at(address, item, gpus)
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    # 0 stands for "has none", on every APU alike.
    found = [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    return found, None if found else _sentences().no_gpu_with_id(item, gpus)


def _no_gpu_at(address: PciAddress, item: str, gpus: Sequence[GpuLocation]) -> UnknownGpu:
    """Say why there is no GPU at an address: rocm-smi and amd-smi print partition k as PCI function k."""
    slot = address.sort_key[:3]
    partitions = [
        gpu
        for gpu in gpus
        if gpu.partition_total > 1 and gpu.pci_address.sort_key[:3] == slot and gpu.partition_rank == address.function
    ]
    # Virtual functions of one device share the slot, so several may be meant.
    problem: UnknownGpu = (
        _sentences().partition_as_function(address, item, partitions[0])
        if len(partitions) == 1
        else _sentences().no_gpu_at(address, item, gpus)
    )
    return problem


def _sentences() -> ModuleType:
    """Return the module that says what is wrong; a request that can be met does not load it."""
    from amdgpu_discovery import unknown_gpus

    return unknown_gpus
