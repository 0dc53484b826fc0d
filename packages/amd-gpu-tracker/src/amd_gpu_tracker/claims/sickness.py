"""Note which GPUs were seen to be sick, so that container starts, which read no health, refuse them."""

from __future__ import annotations

import time

from amd_gpu_tracker.records.drains import Drain, read_drains, this_boot, write_drains
from amd_gpu_tracker.records.unrecorded import DRAINS, forget_failure, note_failure
from amdgpu_discovery.errors import FileError, ToolkitError
from amdgpu_discovery.health.reading import SICK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.claims.claim import Book
    from amdgpu_discovery.health.reading import Health


def keep_sick(book: Book, health: Mapping[str, Health], *, with_errors: bool, gives_sick: bool) -> None:
    """Write down what a look found out about the health of GPUs, by their keys; what fails, doctor shows.

    A look `with_errors` has read all that can be wrong with a GPU. An administrator who `gives_sick` GPUs has none
    written down.
    """
    seen = {key: "; ".join(each.reasons) if each.verdict == SICK else "" for key, each in health.items()}
    if gives_sick:
        seen = dict.fromkeys(seen, "")
    elif not with_errors:
        # What was not asked may be what is wrong with it.
        seen = {key: why for key, why in seen.items() if why}
    directory = book.state.run_directory
    try:
        if book.state.read_policy().enabled:
            _note(book, seen)
            forget_failure(directory, DRAINS)
    except FileError as error:
        note_failure(directory, DRAINS, error.message)
    except ToolkitError:
        return


def _note(book: Book, seen: Mapping[str, str]) -> None:
    """Write what is wrong with each GPU, "" where it is well; what was known of others stays."""
    host = book.state.host
    if _with_seen(read_drains(host), seen) is None:
        return
    with book.locked():
        if (noted := _with_seen(read_drains(host), seen)) is not None:
            write_drains(host, noted)


def _with_seen(drains: Sequence[Drain], seen: Mapping[str, str]) -> list[Drain] | None:
    """Return what is to be written after GPUs were looked at, None where that is there already."""
    before = {each.key: each for each in drains if each.is_sick}
    if all(why == (before[key].reason if key in before else "") for key, why in seen.items()):
        return None
    now, boot_id = time.time(), this_boot()
    sick = {
        key: Drain(key=key, reason=why, since=before[key].since if key in before else now, boot_id=boot_id)
        for key, why in seen.items()
        if why
    }
    kept = [each for each in drains if not each.is_sick or each.key not in seen]
    return [*kept, *sick.values()]
