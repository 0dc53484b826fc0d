"""Finds the processes that have DRM nodes open, and what they use through each of them.

The kernel decides whose descriptors may be read (ptrace(2), PTRACE_MODE_READ_FSCREDS): users see those of their own
processes, root sees all. A process may end between any two steps.
"""

from __future__ import annotations

import errno
import posix
import time

from amdgpu_discovery.files import read_file
from amdgpu_discovery.usage.amounts import parse_bytes, parse_count
from amdgpu_discovery.usage.budget import Budget, Deadline, budget_of
from amdgpu_discovery.usage.owners import FIRST_SUBORDINATE, read_share
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable


# `drm-memory-` is the older name of `drm-resident-`; kernels of the transition have both.
VRAM_KEYS = ("drm-resident-vram", "drm-memory-vram", "vram mem")
GTT_KEYS = ("drm-resident-gtt", "drm-memory-gtt", "gtt mem")
PCI_ADDRESS_KEYS = ("drm-pdev", "pdev")
CLIENT_KEYS = ("drm-client-id", "pasid")
ENGINE = "drm-engine-"
# The number of engines of a kind, not a time.
CAPACITY = "drm-engine-capacity-"
DRIVER = "amdgpu"
DRI = "/dev/dri/"
# Limit for one process, which may open as many files as its own limits allow.
MOST_PROCESS_DESCRIPTORS = 65536
# How many links are read before the clock is read again: ten milliseconds.
LINKS_AT_ONCE = 1024
# Limit for DRM nodes among them: for each of these the kernel walks the buffers of the client.
MOST_OPEN_NODES = 1024
# Many times what DRM prints; the kernel adds a line for each lock that a process has on the file.
LARGEST_FDINFO = 256 * 1024
# PF_KTHREAD of include/linux/sched.h; kernel threads have no descriptors.
KERNEL_THREAD = 0x00200000
FLAGS_FIELD = 6


class DrmClient(Value):
    """What a process uses through one open file of a DRM node.

    Attributes:
        pci_address: PCI address as the kernel prints it; "" if it does not.
        client_id: Identifies the client among those of the device; descriptors that share an open file have the same.
        vram_bytes: Video memory.
        gtt_bytes: System memory that the GPU uses.
        engines: Names of engines, each with the nanoseconds for which it has worked for this client.
    """

    pci_address: str
    client_id: str
    vram_bytes: int
    gtt_bytes: int
    engines: tuple[tuple[str, int], ...] = ()


def parse_fdinfo(content: bytes) -> DrmClient | None:
    """Return what a client of amdgpu uses; None for other drivers, and for files that are not DRM nodes."""
    lines = (line.partition(":") for line in content.decode("ascii", "replace").split("\n"))
    fields = {key.strip(): value.strip() for key, _, value in lines}
    client_id = _first(fields, CLIENT_KEYS)
    if not client_id or fields.get("drm-driver", DRIVER) != DRIVER:
        return None
    if _first(fields, VRAM_KEYS) == _first(fields, GTT_KEYS) == "":
        return None
    return DrmClient(
        pci_address=_first(fields, PCI_ADDRESS_KEYS),
        client_id=client_id,
        vram_bytes=parse_bytes(_first(fields, VRAM_KEYS)),
        gtt_bytes=parse_bytes(_first(fields, GTT_KEYS)),
        engines=tuple(_engines(fields)),
    )


def _first(fields: dict[str, str], keys: tuple[str, ...]) -> str:
    return next((fields[key] for key in keys if key in fields), "")


def _engines(fields: dict[str, str]) -> list[tuple[str, int]]:
    times = (
        (key.removeprefix(ENGINE), value.partition(" "))
        for key, value in fields.items()
        if key.startswith(ENGINE) and not key.startswith(CAPACITY)
    )
    return [(engine, parse_count(number)) for engine, (number, _, unit) in times if unit == "ns"]


class NodeUse(Value):
    """A process and one DRM client that it holds.

    Attributes:
        pid: Id of the process.
        node: Name of the node that is open, such as `renderD128`.
        client: What the client uses.
    """

    pid: int
    node: str
    client: DrmClient


class DrmScan(Value):
    """The result of a scan for DRM clients.

    Attributes:
        uses: Every process with each of its clients once; several processes may hold one client.
        refused: Processes that the caller may not inspect.
        cut_short: Processes that were read only in part: they, or all of that user, have too much open.
        not_reached: How many processes were not read, because the time ran out.
    """

    uses: tuple[NodeUse, ...] = ()
    refused: tuple[int, ...] = ()
    cut_short: tuple[int, ...] = ()
    not_reached: int = 0


def scan_drm_clients(
    proc: str,
    *,
    first: Container[int] = (),
    only: Container[int] | None = None,
    clock: Callable[[], float] = time.process_time,
) -> DrmScan:
    """Return the amdgpu clients that processes in `proc` hold, by process id; of the processes `only`, if given.

    If there is too much to read, the processes `first` come before those in containers, and these before others.
    """
    deadline = Deadline(clock)
    order = _order(proc, first, only, deadline)
    uses: list[NodeUse] = []
    refused: list[int] = []
    cut_short: list[int] = []
    budgets: dict[int, Budget] = {}
    reached = 0
    for pid, share in order:
        if deadline.is_over():
            break
        reached += 1
        try:
            reader = _ProcessReader(proc, pid, budgets.setdefault(share, budget_of(share)), deadline)
            uses += reader.read_clients()
        except PermissionError:
            refused.append(pid)
            continue
        except OSError:
            # The process has ended.
            continue
        if reader.is_cut:
            cut_short.append(pid)
    return DrmScan(
        uses=tuple(sorted(uses, key=lambda use: use.pid)),
        refused=tuple(pid for pid in sorted(refused) if not _is_of_kernel(proc, pid)),
        cut_short=tuple(sorted(cut_short)),
        not_reached=len(order) - reached,
    )


def _order(proc: str, first: Container[int], only: Container[int] | None, deadline: Deadline) -> list[tuple[int, int]]:
    """Return processes, each with the user who is charged for it, in the order in which they are read."""
    ranked: list[tuple[int, int, int]] = []
    pids = sorted(int(name) for name in posix.listdir(proc) if name.isdecimal())
    for pid in pids if only is None else [pid for pid in pids if pid in only]:
        # If there are very many, the last are not examined: they come last, and share the budget of subordinate ids.
        share, is_contained = (FIRST_SUBORDINATE, False) if deadline.is_half_over() else read_share(proc, pid)
        rank = 1 if is_contained else 2
        ranked.append((0 if pid in first else rank, pid, share))
    return [(pid, share) for _, pid, share in sorted(ranked)]


class _ProcessReader:
    """Reads one process, within what is left of its user's budget."""

    def __init__(self, proc: str, pid: int, budget: Budget, deadline: Deadline) -> None:
        self._directory = f"{proc}/{pid}"
        self._pid = pid
        self._budget = budget
        self._deadline = deadline
        self.is_cut = False

    def read_clients(self) -> Iterable[NodeUse]:
        """Return the clients that the process holds, each once; OSError if its descriptors cannot be listed."""
        found: dict[tuple[str, str, str], NodeUse] = {}
        for descriptor, node in self._find_nodes():
            client = self._read_client(descriptor)
            if client is not None:
                key = (node, client.pci_address, client.client_id)
                found.setdefault(key, NodeUse(pid=self._pid, node=node, client=client))
        return found.values()

    def _find_nodes(self) -> list[tuple[str, str]]:
        """Return descriptors, each with the DRM node that it leads to."""
        found: list[tuple[str, str]] = []
        # Relative to an open directory, so that the kernel looks up /proc, the process and `fd` only once.
        handle = posix.open(f"{self._directory}/fd", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        try:
            # Not a list of all: processes may have millions.
            with posix.scandir(handle) as entries:
                for count, entry in enumerate(entries):
                    is_late = count % LINKS_AT_ONCE == LINKS_AT_ONCE - 1 and self._deadline.is_over()
                    if (
                        count == MOST_PROCESS_DESCRIPTORS
                        or len(found) == MOST_OPEN_NODES
                        or is_late
                        or not self._budget.take_link()
                    ):
                        self.is_cut = True
                        break
                    node = _linked_node(entry.name, handle)
                    found += [(entry.name, node)] if node else []
        finally:
            posix.close(handle)
        return found

    def _read_client(self, descriptor: str) -> DrmClient | None:
        if not self._budget.may_read() or self._deadline.is_over():
            self.is_cut = True
            return None
        try:
            content = read_file(f"{self._directory}/fdinfo/{descriptor}", largest=LARGEST_FDINFO)
        except OSError as error:
            if error.errno == errno.EFBIG:
                self._budget.take_reading(LARGEST_FDINFO)
                self.is_cut = True
            return None
        self._budget.take_reading(len(content))
        return parse_fdinfo(content)


def _linked_node(descriptor: str, directory: int) -> str:
    """Return the name of the DRM node that a descriptor leads to, "" if it leads elsewhere or is closed."""
    try:
        target = posix.readlink(descriptor, dir_fd=directory)
    except OSError:
        return ""
    return target.removeprefix(DRI) if target.startswith(DRI) else ""


def _is_of_kernel(proc: str, pid: int) -> bool:
    """Return whether a process is a kernel thread, or has ended."""
    try:
        flags = read_file(f"{proc}/{pid}/stat").rpartition(b")")[2].split()[FLAGS_FIELD]
    except (OSError, IndexError):
        return True
    return flags.isdigit() and bool(int(flags) & KERNEL_THREAD)
