"""What fails in an expected way ends the program with a message and an exit code, whichever command it was."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError

# Imported at the top, because a waiting client must report that the service is gone even after its package was removed.
from amdgpu_discovery.plain_text import printable_lines
from amdgpu_discovery.standard_output import print_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def report_failures(run: Callable[[], Any], *, with_trace: bool = False) -> Any:
    """Return what a command returns; SystemExit where it fails in an expected way."""
    try:
        return run()
    except ToolkitError as error:
        if with_trace:
            _show_trace()
        print_error(_printable(error))
        raise SystemExit(error.exit_code) from error


def _printable(error: ToolkitError) -> str:
    from amd_gpu_tracker import GpusRefused

    if isinstance(error, GpusRefused):
        from amdgpu_discovery.people import title_of_person

        error = error.told(title_of_person)
    # Some messages repeat a word from a file that somebody else wrote.
    return printable_lines(str(error))


def _show_trace() -> None:
    import traceback

    traceback.print_exc()
