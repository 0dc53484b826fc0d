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
    from collections.abc import Iterable, Sequence

CDI_PREFIX = "amd.com/gpu="
NO_GPU = ("", "none", "void")
ALL = "all"
SHOW_GPUS = "'amd-ctk gpu list' shows them"

# Shorter words of hexadecimal digits are GPU numbers; upstream draws the line here too.
LONGEST_NUMBER = 8
# How many names an error lists before it counts the rest, and how much of an item it repeats: an image's environment
# may hold megabytes.
NAMES_SHOWN = 8
CHARACTERS_SHOWN = 60
# Far more than a host has GPUs: each is compared with every GPU, as root and before any limit of the container's.
MOST_ITEMS = 1024


class UnknownGpu(RequestError):
    """An item that names no GPU of this host; `items` as far as they are unknown, numbers one by one."""

    def __init__(self, message: str, *, items: Sequence[str], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.items = list(items)


class BrokenRange(RequestError):
    """An item that looks like a range and is none."""

    def __init__(self, message: str, *, item: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.item = item


class Resolution(Value):
    """What a request means on this host: the `gpus` it names, by number, and what in it cannot be met."""

    gpus: tuple[GpuLocation, ...]
    unknown: tuple[UnknownGpu, ...]
    broken_ranges: tuple[BrokenRange, ...]


def asks_for_nothing(request: str) -> bool:
    """Return whether a request is one of the ways to say "no GPU"."""
    return request.strip().lower() in NO_GPU


def select_gpus(gpus: Sequence[GpuLocation], request: str) -> list[GpuLocation]:
    """Return the GPUs a request names, by number and each once; RequestError unless all of it can be met.

    `gpus` are all GPUs of the host in the order of their numbers.
    """
    resolution = resolve(gpus, request)
    for problem in (*resolution.broken_ranges, *resolution.unknown):
        raise problem
    return list(resolution.gpus)


def resolve(gpus: Sequence[GpuLocation], request: str) -> Resolution:
    """Return what of a request can be met and what cannot; RequestError only where it names too many things."""
    chosen: set[int] = set()
    unknown: list[UnknownGpu] = []
    broken: list[BrokenRange] = []
    for item in _split(request):
        try:
            numbers, problem = _resolve_item(gpus, item)
            chosen.update(numbers)
            unknown += [problem] if problem else []
        except UnknownGpu as error:
            unknown.append(error)
        except BrokenRange as error:
            broken.append(error)
    return Resolution(
        gpus=tuple(gpus[number] for number in sorted(chosen)),
        unknown=tuple(unknown),
        broken_ranges=tuple(broken),
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


def _resolve_item(gpus: Sequence[GpuLocation], item: str) -> tuple[range | list[int], UnknownGpu | None]:
    """Return the numbers an item names, and what it names beyond them (a range may do both)."""
    if item.lower() == ALL:
        return range(len(_require_any(gpus))), None
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank), None
    named = _resolve_name(gpus, item)
    if named is not None:
        return [gpu.number for gpu in named], None
    first, is_range, last = item.partition("-")
    if is_range:
        return _resolve_range(gpus, item, first.strip(), last.strip())
    return _resolve_number(gpus, item), None


def _require_any(gpus: Sequence[GpuLocation]) -> Sequence[GpuLocation]:
    if not gpus:
        raise UnknownGpu("this host has no AMD GPU that can compute", items=[ALL], hint=SHOW_GPUS)
    return gpus


def _resolve_partition(gpus: Sequence[GpuLocation], name: str, rank: str) -> list[int]:
    siblings = _resolve_name(gpus, name)
    if siblings is None:
        raise UnknownGpu(
            f"{_quote(f'{name}:p{rank}')} names no partition",
            items=[f"{name}:p{rank}"],
            hint="put :pN behind a unique id or a PCI address; a number names one partition already",
        )
    chosen = [gpu.number for gpu in siblings if gpu.partition_rank == _parse_number(rank)]
    if not chosen:
        ranks = [gpu.partition_rank for gpu in siblings]
        raise UnknownGpu(
            f"{name[:CHARACTERS_SHOWN]} has no partition {rank[:CHARACTERS_SHOWN]}, it has {_span(ranks)}",
            items=[f"{name}:p{rank}"],
            hint=SHOW_GPUS,
        )
    return chosen


def _resolve_name(gpus: Sequence[GpuLocation], item: str) -> list[GpuLocation] | None:
    """Return the GPUs that share a unique id or a PCI address; None if the item is neither."""
    address = parse_pci_address(item)
    if address:
        return _require_found(
            [gpu for gpu in gpus if gpu.pci_address == address],
            item=item,
            missing=f"no GPU is at PCI address {address}",
            existing=(str(gpu.pci_address) for gpu in gpus),
        )
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    return _require_found(
        # 0 stands for "has none", on every APU alike.
        [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)],
        item=item,
        missing=f"no GPU has the unique id {item[:CHARACTERS_SHOWN]}",
        existing=(f"0x{gpu.unique_id:X}" for gpu in gpus if gpu.unique_id),
    )


def _require_found(chosen: list[GpuLocation], *, item: str, missing: str, existing: Iterable[str]) -> list[GpuLocation]:
    if not chosen:
        raise UnknownGpu(f"{missing}, this host has {_names(existing)}", items=[item], hint=SHOW_GPUS)
    return chosen


def parse_unique_id(item: str) -> int | None:
    """Read a unique id in any of its spellings; None if it is none."""
    lower = item.lower()
    for prefix in ("0x", "gpu-", ""):
        if lower.startswith(prefix) and (prefix or len(lower) > LONGEST_NUMBER):
            digits = lower[len(prefix) :]
            return int(digits, 16) if digits and not digits.strip("0123456789abcdef") else None
    return None


def _resolve_range(gpus: Sequence[GpuLocation], item: str, first: str, last: str) -> tuple[range, UnknownGpu | None]:
    low, high = _parse_number(first), _parse_number(last)
    if low is None or high is None:
        raise BrokenRange(
            f"{_quote(item)} is not a range of GPUs",
            item=item,
            hint="write the first and the last number, such as 0-2",
        )
    if low > high:
        raise BrokenRange(f"{_quote(item)} is not a range of GPUs", item=item, hint=f"write {high}-{low}")
    # Compared before it is expanded: 0-9999999999 in an image must cost nothing.
    if high < len(gpus):
        return range(low, high + 1), None
    return range(low, len(gpus)), _unknown_numbers(gpus, max(low, len(gpus)), high)


def _resolve_number(gpus: Sequence[GpuLocation], item: str) -> list[int]:
    number = _parse_number(item)
    if number is None:
        what = f"{_quote(item)} is" if item else "an empty item between commas is"
        raise UnknownGpu(
            f"{what} not a GPU number, range, unique id or PCI address",
            items=[item],
            hint=f"write {_numbers(gpus)}" if gpus else f"this host has {_numbers(gpus)}",
        )
    if number >= len(gpus):
        raise _unknown_numbers(gpus, number, number)
    return [number]


def _parse_number(text: str) -> int | None:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # More digits than any host has GPUs; python refuses to read thousands of them.
    return int(digits.lstrip("0")[:20] or "0")


def _unknown_numbers(gpus: Sequence[GpuLocation], first: int, last: int) -> UnknownGpu:
    few = last - first < NAMES_SHOWN
    items = [str(number) for number in range(first, last + 1)] if few else [f"{first}-{last}"]
    subject = f"GPU {first} does" if first == last else f"GPUs {first}-{last} do"
    return UnknownGpu(f"{subject} not exist, this host has {_numbers(gpus)}", items=items, hint=SHOW_GPUS)


def _numbers(gpus: Sequence[GpuLocation]) -> str:
    if not gpus:
        return "no AMD GPU that can compute"
    return f"GPU{'s' if len(gpus) > 1 else ''} {_span([gpu.number for gpu in gpus])}"


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _names(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    if not unique:
        return "none"
    more = f" and {len(unique) - NAMES_SHOWN} more" if len(unique) > NAMES_SHOWN else ""
    return ", ".join(unique[:NAMES_SHOWN]) + more


def _quote(item: str) -> str:
    shown = item if len(item) <= CHARACTERS_SHOWN else f"{item[:CHARACTERS_SHOWN]}..."
    # What is not printable must not reach a terminal through an error message.
    return f"'{shown}'" if shown.isprintable() else ascii(shown)
