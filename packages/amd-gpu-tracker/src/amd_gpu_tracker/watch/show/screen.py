"""Shows lists once, and status also until the user ends it: fitted to a terminal's width, elsewhere complete."""

from __future__ import annotations

import time

from amd_gpu_tracker.errors import GpusChanged, OptionsExcluded
from amd_gpu_tracker.times import format_time
from amd_gpu_tracker.watch.show.listing import WIDE_TERMINAL, Listing, Page, format_listing
from amd_gpu_tracker.watch.show.table import format_json, format_status, list_status
from amdgpu_discovery.command_line.standard_output import is_terminal, print_notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from amd_gpu_tracker.book.refusal_log import Refusal
    from amd_gpu_tracker.leases.status import LostGpu, Status

    ReadStatus = Callable[[], Status]
    from collections.abc import Collection

SCREEN_SECONDS = 0.5
DISABLED = "GPU Tracker is disabled"
# JSON is always complete, so --no-trunc does not change it.
EXCLUDED_BY_OPTION = {
    "--refusals": ("--usage", "--peak", "--prometheus", "--watch", "--no-trunc"),
    "--prometheus": ("--json", "--watch", "--no-trunc"),
    "--watch": ("--no-trunc",),
    "--html": ("--json", "--usage", "--peak", "--refusals", "--prometheus", "--watch", "--no-trunc"),
}


def print_list(listing: Listing, *, no_trunc: bool, narrow: Listing | None = None) -> None:
    """Print a list; a terminal of less than 100 columns shows `narrow` instead."""
    if not is_terminal():
        print(format_listing(listing))
        return
    from amd_gpu_tracker.watch.show.terminal import make_console, print_listing

    console = make_console()
    shown = narrow if narrow and console.width < WIDE_TERMINAL else listing
    print_listing(shown, console, no_trunc=no_trunc)


def print_status(read_status: ReadStatus, *, as_json: bool, wide: bool, no_trunc: bool) -> None:
    """Print the current status, and on stderr what could not be read, and who can reach all GPUs."""
    try:
        status = read_status()
    except GpusChanged as error:
        print_notes(error.living)
        raise
    if is_terminal() and status.enabled and not as_json:
        names = _names(status)
        now = None if no_trunc else time.time()
        narrow = None if wide or no_trunc else list_status(status, names, wide=False, now=now)
        print_list(list_status(status, names, wide=True, now=now), no_trunc=no_trunc, narrow=narrow)
    else:
        print(_format(status, as_json=as_json, wide=wide))
    if not as_json:
        print_notes(_notes(status))


def watch_status(read_status: ReadStatus, *, as_json: bool, wide: bool) -> None:
    """Show status until Ctrl-C: on a terminal as a screen, elsewhere again after every change."""
    if is_terminal() and not as_json:
        from amd_gpu_tracker.watch.show.watch_screen import watch_screen

        watch_screen("GPU Tracker", lambda console, _: _page(read_status, console, wide=wide), seconds=SCREEN_SECONDS)
        return
    watch_text(lambda: _format_now(read_status, as_json=as_json, wide=wide), seconds=SCREEN_SECONDS)


def watch_text(read: Callable[[], tuple[str, tuple[str, ...]]], *, seconds: float, unchanged_too: bool = False) -> None:
    """Print what each `read` returns until Ctrl-C: the text, and on stderr the notes, if they have changed."""
    before: tuple[str, tuple[str, ...]] = ("", ())
    try:
        while True:
            text, notes = read()
            if unchanged_too or text != before[0]:
                print(text, flush=True)
            if notes != before[1]:
                print_notes(notes)
            before = text, notes
            time.sleep(seconds)
    except KeyboardInterrupt:
        return


def print_refusals(refusals: Sequence[Refusal], *, as_json: bool) -> None:
    """Print the latest refusals."""
    # Status shows none of them, and mostly no person.
    from amd_gpu_tracker.watch.show.refused import format_refusals, format_refusals_as_json

    print(format_refusals_as_json(refusals) if as_json else format_refusals(refusals))


def _format_now(read_status: ReadStatus, *, as_json: bool, wide: bool) -> tuple[str, tuple[str, ...]]:
    """Return status in the form for files and programs, and the notes about it."""
    try:
        status = read_status()
    except GpusChanged as error:
        return str(error), error.living
    return _format(status, as_json=as_json, wide=wide), () if as_json else _notes(status)


def _page(read_status: ReadStatus, console: Console, *, wide: bool) -> Page:
    try:
        status = read_status()
    except GpusChanged as error:
        return Page(shown=str(error), notes=error.living)
    if not status.enabled:
        return Page(shown=DISABLED)
    is_wide = wide or console.width >= WIDE_TERMINAL
    listing = list_status(status, _names(status), wide=is_wide, now=time.time())
    return Page(shown=listing, notes=_notes(status))


def _notes(status: Status) -> tuple[str, ...]:
    """Return notes: what could not be read, which GPUs are lost, drained, sick or dirty, and who can reach all GPUs."""
    drained = (
        f"{gpu.name} is drained{f': {gpu.drained}' if gpu.drained else ''}"
        for gpu in status.gpus
        if gpu.drained is not None
    )
    sick = (f"{gpu.name} is sick: {gpu.sick}" for gpu in status.gpus if gpu.sick)
    dirty = (f"{gpu.name} is dirty: {gpu.dirty}" for gpu in status.gpus if gpu.dirty)
    privileged = (
        f"container {use.container_id} is privileged: it can reach all GPUs, exclusive ones too"
        for use in status.privileged
    )
    lost = map(_format_lost, status.lost)
    return (*status.problems, *lost, *_format_changes(status), *drained, *sick, *dirty, *privileged)


def _format_lost(gpu: LostGpu) -> str:
    since = f" since {format_time(gpu.since)}" if gpu.since else ""
    return f"GPU {gpu.number} is lost{since}: {gpu.reason}; 'sudo amd-ctk gpu-tracker forget {gpu.number}' forgets it"


def _format_changes(status: Status) -> tuple[str, ...]:
    """Return a sentence if requests by some numbers are refused."""
    changed = [min(gpu.number, gpu.tracked_number) for gpu in status.gpus if gpu.tracked_number is not None]
    changed += [gpu.number for gpu in status.lost]
    if not changed:
        return ()
    return (f"numbers from {min(changed)} on have changed since GPUs were tracked, so requests by them are refused",)


def _names(status: Status) -> dict[str, str]:
    uses = (*(use for gpu in status.gpus for use in gpu.containers), *status.privileged)
    # The list for scripts has no names.
    from amd_gpu_tracker.leases.container_names import find_container_names

    return find_container_names(uses)


def _format(status: Status, *, as_json: bool, wide: bool) -> str:
    names = _names(status) if wide or as_json else {}
    if as_json:
        return format_json(status, names)
    if not status.enabled:
        return DISABLED
    return format_status(status, names=names if wide else None)


def require_compatible(given: Collection[str]) -> None:
    """Raise OptionsExcluded for options that exclude each other."""
    for option, excluded in EXCLUDED_BY_OPTION.items():
        for other in excluded:
            if option in given and other in given:
                raise OptionsExcluded(option, other)
