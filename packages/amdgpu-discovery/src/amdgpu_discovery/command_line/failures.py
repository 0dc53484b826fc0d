"""Report expected failures of all commands: print the message and exit with the error's code."""

from __future__ import annotations

from amdgpu_discovery.command_line.standard_output import print_error
from amdgpu_discovery.errors import ToolkitError

# Imported at the top, because a waiting client must report that the service is gone even after its package was removed.
from amdgpu_discovery.untrusted.plain_text import printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def report_failures(run: Callable[[], Any], *, with_trace: bool = False) -> Any:
    """Run a command and return its result. Raise SystemExit if it fails with a ToolkitError."""
    try:
        return run()
    except ToolkitError as error:
        if with_trace:
            _show_trace()
        print_error(_printable(error))
        raise SystemExit(error.exit_code) from error


def _printable(error: ToolkitError) -> str:
    from amdgpu_discovery.usage.people import title_of_person

    # Some messages quote words from files that other programs wrote.
    return printable_lines(str(error.told(title_of_person)))


def _show_trace() -> None:
    import traceback

    traceback.print_exc()
