"""What fails in an expected way ends the program with a message and an exit code, whichever command it was."""

from __future__ import annotations

import sys

from amdgpu_discovery.errors import ToolkitError, reason

# Not imported where it is needed: who waits is told that the service is gone also where its package was removed.
from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def report_failures(run: Callable[[], Any], *, with_trace: bool = False) -> Any:
    """Return what a command returns, with its output written; SystemExit where it fails in an expected way."""
    try:
        answer = run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except ToolkitError as error:
        from amd_ctk.stderr import say_last

        if with_trace:
            _show_trace()
        say_last(_printable_lines(error))
        raise SystemExit(error.exit_code) from error
    except OSError as error:
        # Errors of named files are ToolkitErrors; what is left is standard output, and os.getcwd().
        if error.filename is not None:
            raise
        _give_up_answer(error)
    return answer


def _printable_lines(error: ToolkitError) -> str:
    from amd_gpu_tracker import GpusRefused

    if isinstance(error, GpusRefused):
        from amdgpu_discovery.people import title_of_person

        error = error.told(title_of_person)
    # Some repeat a word of a file that others wrote.
    return "\n".join(map(printable, str(error).split("\n")))


def _show_trace() -> None:
    import traceback

    traceback.print_exc()


def _give_up_answer(error: OSError) -> NoReturn:
    from amd_ctk.stderr import say_last

    if isinstance(error, FileNotFoundError):
        say_last("the current directory does not exist (change to another one)")
        raise SystemExit(1) from error
    # Or the interpreter would try to write the same bytes again on its way out.
    sys.stdout = None
    if not isinstance(error, BrokenPipeError):
        say_last(f"the output cannot be written: {reason(error)}")
    raise SystemExit(1) from error
