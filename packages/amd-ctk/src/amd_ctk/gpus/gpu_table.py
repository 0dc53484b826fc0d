"""The list of GPUs for people: on a terminal, and with `--wide`."""

from __future__ import annotations

from amd_ctk.gpus.listing import count_gpus, find_gpu_states
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.face.state_table import state_column
from amd_gpu_tracker.watch.show.listing import ID_LENGTH, Column, Listing
from amd_gpu_tracker.watch.show.screen import print_list
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.tables.models import find_product_names, model_of, short_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker import ContainerUse, GpuState, GpuUse
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

    # The use of each GPU by its number.
    Users = Mapping[int, GpuUse]

GIBIBYTE = 2**30
NUMBER = Column(header="GPU Id")
MODEL = Column(header="Model", yields=6, least=ID_LENGTH)
TARGET = Column(header="Target", yields=2)
MEMORY = Column(header="Memory", yields=5, is_number=True)
UUID = Column(header="UUID")
NODE = Column(header="DRM Devices")
PCI_ADDRESS = Column(header="PCI Address", yields=3)
PARTITION = Column(header="Partition", yields=4)
NUMA = Column(header="NUMA", yields=1, is_number=True)
STATE = state_column(yields=7)
USERS = Column(header="Used by", least=ID_LENGTH, is_id=True)
# Every terminal shows these; the others need `--wide` or a wide terminal.
BASE = (NUMBER, MODEL, MEMORY, UUID, NODE, USERS)


def print_gpus(host: Host, gpus: Sequence[Gpu], *, wide: bool, no_trunc: bool) -> list[str]:
    """Print the GPUs, fitted to the width of the terminal if stdout is one. Return notes for stderr."""
    users, names, notes = _find_users(host)
    states, lost = find_gpu_states(host) if wide else (None, [])
    notes += [gpu.trouble for gpu in (*(states or {}).values(), *lost) if gpu.trouble]
    listing = list_gpus(gpus, find_product_names(host, gpus), users, names, states)
    print(count_gpus(list(gpus)), flush=True)
    if not gpus:
        return notes
    print_list(listing, no_trunc=no_trunc, narrow=None if wide or no_trunc else keep_columns(listing, BASE))
    return notes


def list_gpus(
    gpus: Sequence[Gpu],
    products: Mapping[int, str],
    users: Users | None,
    names: Mapping[str, str],
    states: Mapping[int, GpuState] | None = None,
) -> Listing:
    """Build the list of GPUs. It omits the columns of states, partitions and users if they would be empty."""
    columns = [NUMBER, MODEL, TARGET, MEMORY, UUID, NODE, PCI_ADDRESS, PARTITION, NUMA, STATE, USERS]
    if not states:
        columns.remove(STATE)
    if not any(gpu.compute_partition for gpu in gpus):
        columns.remove(PARTITION)
    if users is None:
        columns.remove(USERS)
    rows = []
    for gpu in gpus:
        uses = _users_of((users or {}).get(gpu.number), names)
        state = (states or {}).get(gpu.number)
        values = {**_values(gpu, products[gpu.number]), STATE: state.state if state else "-", USERS: uses[0]}
        rows.append(tuple(values[column] for column in columns))
        rows += [tuple(use if column is USERS else "" for column in columns) for use in uses[1:]]
    return Listing(columns=tuple(columns), rows=tuple(rows))


def keep_columns(listing: Listing, columns: Sequence[Column]) -> Listing:
    """Return a list with only these of its columns."""
    kept = [at for at, column in enumerate(listing.columns) if column in columns]
    return Listing(
        columns=tuple(listing.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in listing.rows),
    )


def _values(gpu: Gpu, product: str) -> dict[Column, str]:
    return {
        NUMBER: str(gpu.number),
        MODEL: short_name(model_of(gpu), product),
        TARGET: gpu.gfx_target or "-",
        MEMORY: _memory(gpu),
        UUID: gpu.uuid,
        NODE: gpu.render_path,
        PCI_ADDRESS: str(gpu.pci_address),
        PARTITION: _partition(gpu),
        NUMA: "-" if gpu.numa_node is None else str(gpu.numa_node),
    }


def _memory(gpu: Gpu) -> str:
    """Format the memory of a GPU; an APU shares the memory of the system."""
    if not gpu.vram_bytes:
        return "-"
    return f"{gpu.vram_bytes / GIBIBYTE:.1f} GiB{' shared' if gpu.is_apu else ''}"


def _partition(gpu: Gpu) -> str:
    """Format the compute and memory modes of a GPU, and which of its partitions it is."""
    if not gpu.compute_partition:
        return "-"
    modes = "/".join(mode for mode in (gpu.compute_partition, gpu.memory_partition) if mode)
    return f"{modes} {gpu.partition_rank + 1} of {gpu.partition_total}" if gpu.partition_total > 1 else modes


def _users_of(gpu: GpuUse | None, names: Mapping[str, str]) -> list[str]:
    """Return the names of a GPU's users; "?" stands for a reservation that cannot be read."""
    if gpu is None:
        return ["-"]
    uses = [_name_of(use, names) for use in gpu.containers]
    return [*uses, "?"] if gpu.has_unreadable else uses or ["-"]


def _name_of(use: ContainerUse, names: Mapping[str, str]) -> str:
    return names.get(use.container_id) or use.container_id


def _find_users(host: Host) -> tuple[Users | None, dict[str, str], list[str]]:
    """Return the use of each GPU (None unless an enabled tracker can be read), names of containers, and notes."""
    tracker = Tracker(host)
    try:
        status = tracker.status()
    except ToolkitError as error:
        return None, {}, [str(error)]
    if not status.enabled:
        return None, {}, []
    users = {gpu.number: gpu for gpu in status.gpus}
    uses = [use for gpu in status.gpus for use in gpu.containers]
    return users, tracker.container_names(uses), list(status.problems)
