"""The grammar in which users name GPUs, the same for environment, CDI, Swarm and command line.

A request is a list separated by commas. Its items: a number (`3`), a range (`0-2`), `all`, a unique id as any of AMD's
tools prints it (`0x8DA82C12EF81B5D`, `8da82c12ef81b5d`, `GPU-08da82c12ef81b5d`, or the UUID of `amd-smi list`,
`08ff75a3-0000-1000-80da-82c12ef81b5d`, since amd-smi 10 `080075a3-...` for partition 0), a PCI address
(`0000:03:00.0`). `:p1` after an id or an address means one partition. Each item may be a CDI name (`amd.com/gpu=3`). An
empty request, `none` and `void` ask for no GPU.
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import HEXADECIMAL, GpuLocation, UnnumberedGpu, parse_pci_address
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from amdgpu_discovery.choices.unknown_gpus import BrokenRange, UnknownGpu

    # The numbers that an item names, and its problem.
    Resolved = tuple[range | list[int], UnknownGpu | BrokenRange | None]

ALL = "all"
CDI_PREFIX = "amd.com/gpu="
NO_GPU = ("", "none", "void", f"{CDI_PREFIX}none", f"{CDI_PREFIX}void")
# Shorter words of hexadecimal digits are GPU numbers; upstream draws the line here too.
LONGEST_GPU_NUMBER = 8
OF_NUMBERS = "+-0123456789 "
# How an item may identify a GPU, in the words of settings and options.
BY_UUID = "uuid"
BY_PCI = "pci"
FORMS = {BY_UUID: "unique id", BY_PCI: "PCI address"}
# The lengths of the groups in a UUID of `amd-smi list`.
UUID_GROUPS = (8, 4, 4, 4, 12)
# The second byte of such a UUID, if it means all partitions of a GPU.
WHOLE = 0xFF
# What rocminfo prints for a GPU without a unique id.
NO_UNIQUE_ID = "gpu-xx"

# Far more than a host has GPUs: each item is compared with every GPU, as root and before any limit of the container's.
MOST_ITEMS = 1024
# MAX_ARG_STRLEN of Linux: no process can be started with a longer variable, so this limit costs nothing.
LONGEST_VARIABLE = 128 * 1024


class Resolution(Value):
    """The meaning of a request on this host: the `gpus` it names, by number, and what in it cannot be met, in order.

    `order` has the numbers of these GPUs in the order of the request.
    """

    gpus: tuple[GpuLocation, ...]
    order: tuple[int, ...] = ()
    problems: tuple[BrokenRange | UnknownGpu, ...] = ()

    @property
    def unknown(self) -> list[UnknownGpu]:
        """Return the items that name no GPU of this host."""
        return [problem for problem in self.problems if isinstance(problem, _messages().UnknownGpu)]

    @property
    def broken_ranges(self) -> list[BrokenRange]:
        """Return the invalid ranges; they come first."""
        return [problem for problem in self.problems if isinstance(problem, _messages().BrokenRange)]


def asks_for_nothing(request: str) -> bool:
    """Return whether a request is one of the ways to ask for no GPU."""
    return request.strip().lower() in NO_GPU


def names_numbers(request: str) -> bool:
    """Return whether a request has only numbers, ranges, `all` and words for no GPU."""
    return all(
        item in NO_GPU
        or item == ALL
        or (not item.strip(OF_NUMBERS) and (len(item) <= LONGEST_GPU_NUMBER or "-" in item))
        for item in request[:LONGEST_VARIABLE].lower().split(",")
    )


def may_be_choice(request: str) -> bool:
    """Return False if a request certainly names GPUs; `choices.grammar` parses the others."""
    text = request[:LONGEST_VARIABLE].lower()
    return "auto" in text or "free" in text or (ALL in text and ("+" in text or "&" in text))


def select_gpus(
    gpus: Sequence[GpuLocation], request: str, *, unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple
) -> list[GpuLocation]:
    """Return the GPUs that `request` names, by number and each once; RequestError unless all of it can be met.

    `gpus` are those that this process may use, in the order of their numbers. `unnumbered` finds the GPUs that have no
    number, and is called once, if `request` names an address without a numbered GPU.
    """
    resolution = resolve(gpus, request, unnumbered=unnumbered)
    for problem in resolution.problems:
        raise problem
    return list(resolution.gpus)


def resolve(
    gpus: Sequence[GpuLocation], request: str, *, unnumbered: Callable[[], Sequence[UnnumberedGpu]] = tuple
) -> Resolution:
    """Return which GPUs a request names, and what in it cannot be met; RequestError only if it is too long.

    `unnumbered` finds the GPUs that have no number; it is called once, if an address without a numbered GPU is named.
    """
    chosen: dict[int, None] = {}
    problems: list[UnknownGpu | BrokenRange] = []
    for item in split_items(request):
        numbers, problem = _resolve_item(gpus, item)
        chosen.update(dict.fromkeys(numbers))
        if problem:
            problems.append(problem)
    found = tuple(gpu for gpu in gpus if gpu.number in chosen)
    if not problems:
        return Resolution(gpus=found, order=tuple(chosen))
    words = _messages()
    problems = words.name_unnumbered(problems, unnumbered)
    problems = sorted(problems, key=lambda each: isinstance(each, words.UnknownGpu))
    return Resolution(gpus=found, order=tuple(chosen), problems=tuple(problems))


def split_items(request: str) -> list[str]:
    """Return the items of a request, each once; RequestError if it is too long."""
    if len(request) > LONGEST_VARIABLE:
        raise RequestError(
            f"a request of {len(request)} characters is too long", hint=f"at most {LONGEST_VARIABLE} are read"
        )
    if asks_for_nothing(request):
        return []
    # Programs that write lists often end them with a comma.
    words = request.strip().removesuffix(",").split(",")
    items = list(dict.fromkeys(word.strip().removeprefix(CDI_PREFIX) for word in words))
    if len(items) > MOST_ITEMS:
        raise RequestError(f"a request of {len(items)} items is too long", hint=f"at most {MOST_ITEMS} are read")
    return items


def find_numbers(request: str) -> list[range]:
    """Return the numbers and the ranges in a request, each as a range; [] if it is too long."""
    try:
        spans = [_span_of(item) for item in split_items(request)]
    except RequestError:
        return []
    return [range(low, high + 1) for low, high in filter(None, spans)]


def _span_of(item: str) -> tuple[int, int] | None:
    """Return the first and the last number that an item names, None if it names none."""
    # Longer words are ids, but no id begins with a sign.
    number = parse_number(item) if len(item) <= LONGEST_GPU_NUMBER or item.startswith("+") else None
    if number is not None:
        return number, number
    first, _, last = item.partition("-")
    low, high = parse_number(first.strip()), parse_number(last.strip())
    return None if low is None or high is None else (low, high)


def is_identity(item: str) -> bool:
    """Return whether an item names a GPU by unique id or PCI address, which no other kind of device shares."""
    return form_of(item) != ""


def form_of(item: str) -> str:
    """Return how an item names a GPU: BY_UUID, BY_PCI, or "" for anything else."""
    name = item.strip().removeprefix(CDI_PREFIX)
    whole, is_partition, rank = name.rpartition(":p")
    name = whole if is_partition and rank.isdecimal() else name
    if parse_pci_address(name) is not None:
        return BY_PCI
    return BY_UUID if parse_unique_id(name) is not None else ""


def is_group_name(text: str) -> bool:
    """Return whether a group may have this name: CDI allows these characters in the name of a device."""
    letters = text.replace("-", "").replace("_", "").replace(".", "")
    return text.isascii() and text[:1].isalnum() and text[-1:].isalnum() and letters.isalnum()


def parse_number(text: str) -> int | None:
    """Parse a number; return None for any other text."""
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # 20 digits are enough for any host; Python refuses to convert thousands of them.
    return int(digits.lstrip("0")[:20] or "0")


def parse_unique_id(item: str) -> int | None:
    """Parse a unique id in any of its spellings; return None for any other text."""
    lower = item.lower()
    if lower[8:9] == "-":
        return _parse_smi_uuid(lower)
    for prefix in ("0x", "gpu-", ""):
        if lower.startswith(prefix) and (prefix or len(lower) > LONGEST_GPU_NUMBER):
            digits = lower[len(prefix) :]
            return int(digits, 16) if digits and not digits.strip("0123456789abcdef") else None
    return None


def format_smi_uuid(unique_id: int, device_id: int, partition: int = WHOLE) -> str:
    """Return the UUID that `amd-smi list` prints for a GPU, whose PCI function has this id.

    amd-smi 10 prints the number of the partition, 0 for a GPU without partitions; earlier releases print WHOLE.
    """
    digits = f"{unique_id:016x}"
    return f"{digits[:2]}{partition:02x}{device_id:04x}-0000-1000-80{digits[2:4]}-{digits[4:]}"


def _resolve_item(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers that an item names, and its problem; a range may have both."""
    if item.lower() == ALL:
        return [gpu.number for gpu in gpus], None if gpus else _messages().no_gpu()
    span = _span_of(item)
    return _resolve_range(gpus, item, *span) if span else _resolve_name(gpus, item)


def _resolve_range(gpus: Sequence[GpuLocation], item: str, low: int, high: int) -> Resolved:
    if low > high:
        return [], _messages().broken_range(item, f"write {high}-{low}")
    return _resolve_span(gpus, low, high)


def _resolve_span(gpus: Sequence[GpuLocation], first: int, last: int) -> Resolved:
    # Compared and never expanded: 0-9999999999 in an image must cost nothing.
    numbers = [gpu.number for gpu in gpus if first <= gpu.number <= last]
    return numbers, None if len(numbers) == last - first + 1 else _messages().missing_numbers(gpus, first, last)


def _resolve_name(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers for an item that is neither `all` nor a short number nor a range."""
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank)
    named = _find(gpus, item)
    if named and item[8:9] == "-" and int(item[2:4], 16) != WHOLE:
        return _resolve_partition(gpus, item, str(int(item[2:4], 16)))
    if named is not None:
        return [gpu.number for gpu in named[0]], named[1]
    if item.lower() == NO_UNIQUE_ID:
        return [], _messages().no_unique_id(item)
    if "-" in item and not item.strip(OF_NUMBERS):
        return [], _messages().broken_range(item, "write the first and the last number, such as 0-2")
    number = parse_number(item)
    return ([], _messages().not_a_gpu(item, gpus)) if number is None else _resolve_span(gpus, number, number)


def _resolve_partition(gpus: Sequence[GpuLocation], name: str, rank: str) -> Resolved:
    named = _find(gpus, name)
    if named is None:
        return [], _messages().names_no_partition(f"{name}:p{rank}")
    siblings, problem = named
    chosen = [gpu.number for gpu in siblings if gpu.partition_rank == parse_number(rank)]
    if not (chosen or problem):
        problem = _messages().no_such_partition(f"{name}:p{rank}", [gpu.partition_rank for gpu in siblings])
    return chosen, problem


def _find(gpus: Sequence[GpuLocation], item: str) -> tuple[list[GpuLocation], UnknownGpu | None] | None:
    """Return the GPUs that share a unique id or a PCI address; None if the item is neither."""
    address = parse_pci_address(item)
    if address:
        found = [gpu for gpu in gpus if gpu.pci_address == address]
        return found, None if found else _messages().no_gpu_at(address, item, gpus)
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    # 0 means "no id", and all APUs have it.
    found = [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    return found, None if found else _messages().no_gpu_with_id(item, gpus)


def _messages() -> ModuleType:
    """Return the module with the error messages; a request that can be met does not load it."""
    from amdgpu_discovery.choices import unknown_gpus

    return unknown_gpus


def _parse_smi_uuid(text: str) -> int | None:
    # XXPPDDDD-0000-1000-80YY-ZZZZZZZZZZZZ is the id XXYYZZZZZZZZZZZZ of a GPU with the PCI device id DDDD; PP is the
    # number of a partition, or ff for all.
    groups = text.split("-")
    if tuple(map(len, groups)) != UUID_GROUPS or "".join(groups).strip(HEXADECIMAL):
        return None
    first, *version, clock, last = groups
    if version != ["0000", "1000"] or clock[:2] != "80":
        return None
    return int(first[:2] + clock[2:] + last, 16)
