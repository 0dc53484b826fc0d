"""Formats usage for people: a list, and the sentences below it."""

from __future__ import annotations

from amd_gpu_tracker.times import format_minutes
from amd_gpu_tracker.watch.show.listing import (
    LIMIT,
    Column,
    Listing,
    format_amount,
    format_limit,
    format_share,
    shorten,
)
from amdgpu_discovery.tables.models import short_name
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.watch.usage.peaks import Peak
    from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage, UserProcess

MOST_PIDS = 6
# A container may give each of its processes another name.
MOST_PROCESS_NAMES = 6
MOST_SHOWN_ENDED = 20
LONGEST_SHOWN_NAME = 40
NOT_ACCOUNTED_FOR = "(not accounted for)"
ONE_OF_PARTITIONS = "(one of the partitions)"
# Characters between names and pids.
PARTS_OF_LIST = frozenset(' ;,()"')
# Characters that are letters and symbols in Unicode and blank on a screen: fillers of Hangul and Braille.
BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
NOT_TRACKED = "(not tracked)"
# The column that a narrow terminal can best do without yields first.
COLUMNS = (
    Column(header="GPU", is_whole=True),
    Column(header="Model", yields=1),
    Column(header="VRAM used", is_whole=True),
    Column(header="GTT used", yields=3, is_whole=True),
    Column(header="Busy", is_number=True),
    Column(header="Who", least=16),
    Column(header="Memory", yields=4, is_number=True),
    Column(header=LIMIT, yields=6, is_number=True),
    Column(header="Peak", yields=5, is_number=True),
    Column(header="Processes", yields=2, least=18, wraps=True),
)


def list_usage(usage: Usage, *, now: float, peaks: bool = False) -> Listing:
    """Return a row for each user of a GPU, and one for each unused GPU.

    Columns that no GPU needs are left out: GTT without an APU, how busy GPUs are after one reading, and limits that no
    container has.
    """
    wanted = {
        LIMIT: any(user.limit_bytes is not None for gpu in usage.gpus for user in gpu.users),
        "GTT used": any(gpu.is_apu for gpu in usage.gpus),
        "Busy": any(gpu.busy_percent is not None for gpu in usage.gpus),
        "Peak": peaks,
    }
    columns = tuple(column for column in COLUMNS if wanted.get(column.header, True))
    rows = [row for gpu in usage.gpus for row in _gpu_rows(gpu, enabled=usage.enabled, now=now)]
    return Listing(columns=columns, rows=tuple(tuple(row[column.header] for column in columns) for row in rows))


def usage_notes(usage: Usage, *, now: float, peaks: bool) -> list[str]:
    """Return sentences about what the list cannot show."""
    ended = _ended(usage, now) if peaks else ()
    return [*ended, *_not_shown(usage.not_shown)]


def _gpu_rows(gpu: GpuUsage, *, enabled: bool, now: float) -> list[dict[str, str]]:
    first = {
        "GPU": str(gpu.number),
        "Model": short_name(gpu.model, gpu.product_name),
        "VRAM used": format_share(gpu.vram_used, gpu.vram_total),
        "GTT used": f"{format_share(gpu.gtt_used, gpu.gtt_total)} shared" if gpu.is_apu else "",
        "Busy": "-" if gpu.busy_percent is None else f"{gpu.busy_percent} %",
    }
    users = [_user_cells(user, gpu, enabled=enabled, now=now) for user in gpu.users]
    if gpu.is_in_unknown_use:
        missing = format_amount(gpu.not_accounted_for)
        users.append({"Who": NOT_ACCOUNTED_FOR, "Memory": missing, LIMIT: "", "Peak": "", "Processes": ""})
    users = users or [{"Who": "-", "Memory": "", LIMIT: "", "Peak": "", "Processes": ""}]
    return [{**(first if not position else dict.fromkeys(first, "")), **cells} for position, cells in enumerate(users)]


def _user_cells(user: GpuUser, gpu: GpuUsage, *, enabled: bool, now: float) -> dict[str, str]:
    return {
        "Who": user.title,
        "Memory": format_amount(gpu.memory_of(user.vram_bytes, user.gtt_bytes)) if user.processes else "",
        "Peak": ""
        if user.peak_bytes is None
        else format_amount(gpu.memory_of(user.peak_bytes, user.peak_gtt_bytes or 0)),
        LIMIT: format_limit(user.limit_bytes, user.charged_bytes),
        "Processes": _processes(user, enabled=enabled) if user.processes else _idle(user, now),
    }


def _processes(user: GpuUser, *, enabled: bool) -> str:
    pids_by_name: dict[str, list[UserProcess]] = {}
    for process in user.processes:
        pids_by_name.setdefault(process.name, []).append(process)
    named = [_same_name(name, processes) for name, processes in pids_by_name.items()]
    others = sum(len(processes) for processes in list(pids_by_name.values())[MOST_PROCESS_NAMES:])
    more = f"{others} more with other names" if others else ""
    text = "; ".join(filter(None, [*named[:MOST_PROCESS_NAMES], more]))
    is_told = all(process.is_partition_told for process in user.processes)
    is_untracked = enabled and user.container_id and not user.is_tracked
    notes = ("" if is_told else ONE_OF_PARTITIONS, NOT_TRACKED if is_untracked else "")
    return " ".join(filter(None, (text, *notes)))


def _same_name(name: str, processes: Sequence[UserProcess]) -> str:
    pids = [str(process.pid) for process in processes if process.pid]
    more = f" and {len(pids) - MOST_PIDS} more" if len(pids) > MOST_PIDS else ""
    called = _quoted(name) or ("unknown" if pids else "not found in this pid namespace")
    return f"{called} {', '.join(pids[:MOST_PIDS])}{more}".rstrip()


def _quoted(name: str) -> str:
    """Return a name that cannot be taken for a part of the list: a process may give itself any name."""
    plain = shorten(printable(name), LONGEST_SHOWN_NAME, "..")
    if not name or (plain.strip(BLANK_LETTERS) and PARTS_OF_LIST.isdisjoint(plain)):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _idle(user: GpuUser, now: float) -> str:
    reserved = "" if user.since is None else f"reserved {format_minutes(now - user.since)}"
    idle = "not in use" if user.last_used is None else f"idle {format_minutes(now - user.last_used)}"
    return f"{reserved}, {idle}".lstrip(", ")


def _ended(usage: Usage, now: float) -> list[str]:
    """Return a sentence for each container that used GPUs and does not any more, the latest first."""
    gpus = {f"{gpu.pci_address}/{gpu.partition_rank}": gpu for gpu in usage.gpus}
    numbers = {key: gpu.number for key, gpu in gpus.items()}
    present = {(*user.owner, gpu.number) for gpu in usage.gpus for user in gpu.users}
    ended = [peak for peak in reversed(usage.peaks) if (*peak.owner, numbers.get(peak.gpu)) not in present]
    return [
        f"{printable(peak.title)} used at most {_peak_amount(peak, gpus.get(peak.gpu))} "
        f"of GPU {numbers.get(peak.gpu, '?')}, last seen {format_minutes(now - peak.seen)} ago"
        for peak in ended[:MOST_SHOWN_ENDED]
    ]


def _peak_amount(peak: Peak, gpu: GpuUsage | None) -> str:
    return format_amount(gpu.memory_of(peak.vram_bytes, peak.gtt_bytes) if gpu else peak.vram_bytes)


def _not_shown(count: int) -> list[str]:
    if not count:
        return []
    processes = "process of another user" if count == 1 else "processes of other users"
    return [f"{count} {processes} could not be checked for GPU use; run the command with sudo"]
