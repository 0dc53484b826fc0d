"""Edits of configuration files: a file before and after, and how commands print what they did or would do."""

from __future__ import annotations

from collections.abc import Callable

from amdgpu_discovery.value import Value

# Engines that read whole directories read only `*.conf` or `*.toml`.
BACKUP_SUFFIX = ".before-amd-ctk"


class ConfigFile(Value):
    """A configuration file: `path` on this machine, and `shown` to the user, which differs on a simulated host."""

    path: str
    shown: str

    @property
    def backup(self) -> ConfigFile:
        """The backup beside the file, with its content from before the last change."""
        return ConfigFile(path=self.path + BACKUP_SUFFIX, shown=self.shown + BACKUP_SUFFIX)


class FileEdit(Value):
    """A file before and after an edit; None means no file."""

    file: ConfigFile
    old: str | None
    new: str | None

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.old != self.new


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
    print(format_diff(edited), end="")


def print_written(edited: FileEdit) -> None:
    """Print which file was written or removed, or that it was up to date."""
    done = "Removed" if edited.new is None else "Updated"
    print(f"{done} the config file: {edited.file.shown}" if edited.changed else up_to_date(edited), flush=True)


def up_to_date(edited: FileEdit) -> str:
    """Return the line for a file that needs no change."""
    return f"The config file is up to date: {edited.file.shown}"


def format_diff(edited: FileEdit) -> str:
    """Format the difference between a file before and after an edit, like diff(1)."""
    old, new = (text.splitlines(keepends=True) if text else [] for text in (edited.old, edited.new))
    # Only dry runs and --diff need it.
    from difflib import unified_diff

    lines = unified_diff(old, new, fromfile=edited.file.shown, tofile=edited.file.shown)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
