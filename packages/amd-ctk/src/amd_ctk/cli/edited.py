"""Print an edit of a configuration file, or what an edit would change."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_ctk.configuration.edit import Edited
    from amd_ctk.configuration.engine import Engine


def print_preview(edited: Edited, *, show_diff: bool, unchanged: Callable[[], None] | None = None) -> None:
    """Print what a dry run found: the whole new file, or the difference; `unchanged` may say that there is none."""
    if not show_diff:
        print(edited.new or "", end="")
    elif edited.changed:
        print_difference(edited)
    elif unchanged:
        unchanged()
    else:
        print(up_to_date(edited))


def preview_edit(edited: Edited, *then: str) -> None:
    """Print the difference that a dry run found, or that the file is up to date; `then`, what else would be done."""
    print_preview(edited, show_diff=True)
    print("".join(f"{line}\n" for line in then if line), end="")


def print_difference(edited: Edited) -> None:
    """Print what changes, as diff(1) writes it; nothing where nothing changes."""
    from amd_ctk.configuration.edit import format_diff

    print(format_diff(edited), end="")


def print_written(edited: Edited) -> None:
    """Print which file was written or removed, or that it did not have to be."""
    done = "Removed" if edited.new is None else "Updated"
    print(f"{done} the config file: {edited.file.shown}" if edited.changed else up_to_date(edited), flush=True)


def ask_for_restart(edited: Edited, engine: Engine) -> None:
    """Print that the daemon has to read its new file, where there is a daemon and a new file."""
    if engine.service and edited.changed:
        print(f"Please restart {engine.service} daemon", flush=True)


def up_to_date(edited: Edited) -> str:
    """Return the line that says that there is nothing to write."""
    return f"The config file is up to date: {edited.file.shown}"
