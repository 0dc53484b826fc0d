"""Print messages to a standard error that may be closed, full or gone; failing to print never fails the command."""

from __future__ import annotations

import sys


def print_note(sentence: str) -> None:
    """Print a sentence if standard error accepts it at once; never wait for a reader."""
    # sys.stderr is None if the descriptor is closed, and print() would then use standard output.
    if sys.stderr is None:
        return
    try:
        # A terminal that Ctrl-S stopped accepts nothing. A pipe that nobody reads fills up.
        if _is_ready(sys.stderr.fileno()):
            print(sentence, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def _is_ready(descriptor: int) -> bool:
    # Imported here because lists seldom print a message.
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))
