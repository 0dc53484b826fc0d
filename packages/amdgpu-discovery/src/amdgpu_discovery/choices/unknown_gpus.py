"""Errors about items of a request, each one sentence that names what exists."""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from amdgpu_discovery.gpu import GpuLocation, PciAddress, UnnumberedGpu

SHOW_GPUS = "'amd-ctk gpu list' shows them"

# How many names an error lists before it counts the rest, and how much of an item it repeats: an image's environment
# may have megabytes.
NAMES_SHOWN = 8
# 0x and the decimal digits of 64 bits.
LONGEST_DECIMAL = 22
CHARACTERS_SHOWN = 60


class UnknownGpu(RequestError):
    """An item that names no GPU of this host; `items` are its unknown parts, numbers one by one.

    `address` is an address without a GPU, None if the item is no address.
    """

    def __init__(
        self, message: str, *, items: Sequence[str], hint: str = "", address: PciAddress | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.items = list(items)
        self.address = address


class NotAGpu(UnknownGpu):
    """An item that cannot name a GPU on any host."""


class BrokenRange(RequestError):
    """An item that looks like a range but is not one."""

    def __init__(self, message: str, *, item: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.item = item


def no_gpu() -> UnknownGpu:
    """Return the error for `all` on a host without GPUs."""
    return UnknownGpu("this host has no AMD GPU that can compute", items=["all"], hint=SHOW_GPUS)


def names_no_partition(item: str) -> NotAGpu:
    """Return the error for `:pN` after something other than an id or an address."""
    return NotAGpu(
        f"{shown(item, quoted=True)} names no partition",
        items=[item],
        hint="put :pN behind a unique id or a PCI address; a number names one partition already",
    )


def no_such_partition(item: str, ranks: list[int]) -> UnknownGpu:
    """Return the error for a partition that does not exist; it names those that do."""
    name, _, rank = item.rpartition(":p")
    found = f"partitions {_span(ranks)}" if len(ranks) > 1 else f"only partition {_span(ranks)}"
    message = f"{name[:CHARACTERS_SHOWN]} has {found}, not {rank[:CHARACTERS_SHOWN]}"
    return UnknownGpu(message, items=[item], hint=SHOW_GPUS)


def no_gpu_at(address: PciAddress, item: str, gpus: Sequence[GpuLocation]) -> UnknownGpu:
    """Return the error for an address without a GPU; it names the existing ones, or the partition that is meant."""
    # rocm-smi and amd-smi print partition k as PCI function k.
    slot = address.sort_key[:3]
    partitions = [
        gpu
        for gpu in gpus
        if gpu.partition_total > 1 and gpu.pci_address.sort_key[:3] == slot and gpu.partition_rank == address.function
    ]
    # Virtual functions of one device share the slot, so several partitions may be meant.
    if len(partitions) == 1:
        return _partition_as_function(address, item, partitions[0])
    message = f"no GPU is at PCI address {address}, {_existing(gpus, [str(gpu.pci_address) for gpu in gpus])}"
    return UnknownGpu(message, items=[item], hint=SHOW_GPUS, address=address)


def no_unique_id(item: str) -> NotAGpu:
    """Return the error for the word that rocminfo prints instead of a unique id."""
    return NotAGpu(
        f"{item} is how rocminfo prints a GPU without a unique id",
        items=[item],
        hint="write its number or PCI address; 'amd-ctk gpu list --json' shows them",
    )


def name_unnumbered(
    problems: list[UnknownGpu | BrokenRange], unnumbered: Callable[[], Sequence[UnnumberedGpu]]
) -> list[UnknownGpu | BrokenRange]:
    """Return the problems; if a GPU without a number is at an address, its problem is why it has none."""
    if not any(isinstance(problem, UnknownGpu) and problem.address for problem in problems):
        return problems
    reasons = {gpu.pci_address: gpu.reason for gpu in unnumbered()}
    return [
        _without_number(problem, reasons[problem.address])
        if isinstance(problem, UnknownGpu) and problem.address in reasons
        else problem
        for problem in problems
    ]


def no_gpu_with_id(item: str, gpus: Sequence[GpuLocation]) -> UnknownGpu:
    """Return the error for an unknown unique id; it names the existing ones."""
    existing = _existing(gpus, [f"0x{gpu.unique_id:X}" for gpu in gpus if gpu.unique_id])
    digits = item[2:] if item[:2].lower() == "0x" and len(item) <= LONGEST_DECIMAL else ""
    number = int(digits) if digits.isascii() and digits.isdecimal() else 0
    meant = [gpu for gpu in gpus if number and number in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    if meant:
        hint = f"amd-smi 6.1 prints the id of GPU {meant[0].number} in decimal behind 0x; write 0x{number:X}"
        return UnknownGpu(f"no GPU has the unique id {item}, {existing}", items=[item], hint=hint)
    return UnknownGpu(f"no GPU has the unique id {item[:CHARACTERS_SHOWN]}, {existing}", items=[item], hint=SHOW_GPUS)


def broken_range(item: str, hint: str) -> BrokenRange:
    """Return the error for an item that is not a valid range."""
    return BrokenRange(f"{shown(item, quoted=True)} is not a range of GPUs", item=item, hint=hint)


def not_a_gpu(item: str, gpus: Sequence[GpuLocation]) -> NotAGpu:
    """Return the error for an item that has no form of the grammar."""
    what = f"{shown(item, quoted=True)} is" if item else "an empty item between commas is"
    return NotAGpu(
        f"{what} not a GPU number, range, unique id or PCI address",
        items=[item],
        hint=f"write {_numbers(gpus)}" if gpus else f"this host has {_numbers(gpus)}",
    )


def missing_numbers(gpus: Sequence[GpuLocation], first: int, last: int) -> UnknownGpu:
    """Return the error for numbers of a span that do not exist or, if all do, are hidden from this process."""
    total = gpus[0].host_total if gpus else 0
    if last >= total:
        return unknown_numbers(gpus, max(first, total), last)
    usable = [gpu.number for gpu in gpus]
    hidden = [number for number in range(first, last + 1) if number not in usable]
    error = UnknownGpu(
        f"GPU{'s' if len(hidden) > 1 else ''} {format_numbers(hidden)} {'are' if len(hidden) > 1 else 'is'}"
        f" not among the GPUs this process may use ({format_numbers(usable)})",
        items=[str(number) for number in hidden],
        hint="its device cgroup hides the others",
    )
    error.names_hidden = True
    return error


def format_numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers in the form of a request: 0, 1, 4-7."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(_span(span) if len(span) > 2 else ", ".join(map(str, span)) for span in spans)


def describe_hidden(numbers: Sequence[int]) -> str:
    """Return a sentence about GPUs of the host that this process must not see."""
    subject = f"GPU {numbers[0]} is" if len(numbers) == 1 else f"GPUs {format_numbers(numbers)} are"
    return f"{subject} hidden from this process by its device cgroup"


def unknown_numbers(gpus: Sequence[GpuLocation], first: int, last: int) -> UnknownGpu:
    """Return the error for numbers that do not exist; it names those that do."""
    few = last - first < NAMES_SHOWN
    items = [str(number) for number in range(first, last + 1)] if few else [f"{first}-{last}"]
    subject = f"GPU {first} does" if first == last else f"GPUs {first}-{last} do"
    return UnknownGpu(f"{subject} not exist, this host has {_numbers(gpus)}", items=items, hint=SHOW_GPUS)


def _partition_as_function(address: PciAddress, item: str, gpu: GpuLocation) -> UnknownGpu:
    whole, rank = gpu.pci_address, gpu.partition_rank
    return UnknownGpu(
        f"PCI address {address} is how rocm-smi prints partition {rank} of the GPU at {whole}",
        items=[item],
        hint=f"write {whole}:p{rank}",
    )


def _without_number(problem: UnknownGpu, reason: str) -> UnknownGpu:
    return UnknownGpu(
        f"the GPU at {problem.address} has no number because {reason}",
        items=problem.items,
        hint="'amd-ctk gpu list' shows the GPUs that containers can have",
    )


def _numbers(gpus: Sequence[GpuLocation]) -> str:
    if not gpus:
        return "no AMD GPU that can compute"
    return f"GPU{'s' if gpus[0].host_total > 1 else ''} {_span(list(range(gpus[0].host_total)))}"


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _existing(gpus: Sequence[GpuLocation], names: list[str]) -> str:
    is_whole = not gpus or gpus[0].host_total == len(gpus)
    return f"{'this host has' if is_whole else 'this process may use'} {_names(names)}"


def _names(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    if not unique:
        return "none"
    more = f" and {len(unique) - NAMES_SHOWN} more" if len(unique) > NAMES_SHOWN else ""
    return ", ".join(unique[:NAMES_SHOWN]) + more


def shown(text: str, *, quoted: bool = False) -> str:
    """Return text for an error message: cut to a limit, and without anything that a terminal would execute."""
    short = text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}..."
    if not short.isprintable():
        return ascii(short)
    return f"'{short}'" if quoted else short
