"""Print an edit of a configuration file that was made, or that would be made."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from amd_ctk.configuration.edit import FileEdit
    from amd_ctk.configuration.engine import Engine


def print_preview(edited: FileEdit, *, show_diff: bool, unchanged: Callable[[], None] | None = None) -> None:
    """Print the result of a dry run: the new file, or the diff. Call `unchanged` if the diff is empty."""
    if not show_diff:
        print(edited.new or "", end="")
    elif edited.changed:
        print_difference(edited)
    elif unchanged:
        unchanged()
    else:
        print(up_to_date(edited))


def preview_edit(edited: FileEdit, *then: str) -> None:
    """Print the diff of a dry run, or that the file is up to date. `then` lists further actions, one per line."""
    print_preview(edited, show_diff=True)
    print("".join(f"{line}\n" for line in then if line), end="")


def print_difference(edited: FileEdit) -> None:
    """Print the edit as diff(1) would. Print nothing if the file does not change."""
    from amd_ctk.configuration.edit import format_diff

    print(format_diff(edited), end="")


def print_written(edited: FileEdit) -> None:
    """Print which file was written or removed, or that it was up to date."""
    done = "Removed" if edited.new is None else "Updated"
    print(f"{done} the config file: {edited.file.shown}" if edited.changed else up_to_date(edited), flush=True)


def ask_for_restart(edited: FileEdit, engine: Engine) -> None:
    """Ask the user to restart the engine's daemon if its file changed."""
    if engine.service and edited.changed:
        print(f"Please restart {engine.service} daemon", flush=True)


def up_to_date(edited: FileEdit) -> str:
    """Return the line for a file that needs no change."""
    return f"The config file is up to date: {edited.file.shown}"
