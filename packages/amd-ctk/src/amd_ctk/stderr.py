"""What a command says on standard error decides nothing: it may be closed, full, or a terminal that went away."""

from __future__ import annotations

import sys


def say(sentence: str) -> None:
    """Print a sentence if standard error takes it at once; never wait for a reader."""
    # Python has none where the descriptor is closed, and would print on standard output then.
    if sys.stderr is None:
        return
    try:
        # A terminal that was stopped by Ctrl-S takes nothing, and a pipe without a reader is full one day.
        if _is_ready(sys.stderr.fileno()):
            print(sentence, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return


def _is_ready(descriptor: int) -> bool:
    # Lists, which seldom have anything to say, do not load it.
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))
