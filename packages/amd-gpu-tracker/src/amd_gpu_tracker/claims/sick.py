"""Records which GPUs are sick, so that starts refuse them."""

from __future__ import annotations

import time

from amd_gpu_tracker.book.drains import SICK, Drain, read_drains, this_boot, write_drains
from amd_gpu_tracker.book.unrecorded import DRAINS, clear_failure, note_failure
from amdgpu_discovery.errors import FileError, ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.claims.claim import Book
    from amdgpu_discovery.health.reading import Health


def record_sick(book: Book, health: Mapping[str, Health], *, with_errors: bool, gives_sick: bool) -> None:
    """Record the health of GPUs after a look, by their keys. `doctor` shows failures to write it.

    A look `with_errors` has read everything that can be wrong with a GPU. If the administrator `gives_sick` GPUs, none
    is recorded as sick.
    """
    seen = {key: "; ".join(each.reasons) if each.verdict == SICK else "" for key, each in health.items()}
    if gives_sick:
        seen = dict.fromkeys(seen, "")
    elif not with_errors:
        # The part that was not read may be the cause.
        seen = {key: why for key, why in seen.items() if why}
    directory = book.state.run_directory
    try:
        if book.state.read_policy().enabled:
            _record(book, seen)
            clear_failure(directory, DRAINS)
    except FileError as error:
        note_failure(directory, DRAINS, error.message)
    except ToolkitError:
        return


def _record(book: Book, seen: Mapping[str, str]) -> None:
    """Record what is wrong with each GPU, "" if it is healthy; records of other GPUs stay."""
    host = book.state.host
    if _with_health(read_drains(host), seen) is None:
        return
    with book.locked():
        if (noted := _with_health(read_drains(host), seen)) is not None:
            write_drains(host, noted)


def _with_health(drains: Sequence[Drain], seen: Mapping[str, str]) -> list[Drain] | None:
    """Return the drains to write after a look at GPUs; None if nothing changes."""
    before = {each.key: each for each in drains if each.state == SICK}
    if all(why == (before[key].reason if key in before else "") for key, why in seen.items()):
        return None
    now, boot_id = time.time(), this_boot()
    sick = {
        key: Drain(key=key, reason=why, since=before[key].since if key in before else now, boot_id=boot_id)
        for key, why in seen.items()
        if why
    }
    kept = [each for each in drains if each.state != SICK or each.key not in seen]
    return [*kept, *sick.values()]
