"""Let a program that has to clean up end between two steps, by recording signals.

A signal handler must not raise: the exception could come after a process was started and before that was recorded.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Interrupted(Exception):
    """The program is to end: by Ctrl-C, because the terminal or the pipe was closed, or by SIGTERM."""


class Interrupts:
    """Records whether the program is to end. Then only `check` ends it."""

    def __init__(self) -> None:
        """Record signals from now on. A signal that the caller ignores, as with nohup, stays ignored."""
        self.noted: signal.Signals | None = None
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def check(self) -> None:
        """Raise Interrupted if the program is to end."""
        if self.noted:
            raise Interrupted

    def ignore(self) -> None:
        """Ignore signals from now on. Python restores their defaults when it exits, and these kill."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def print(self, sentence: str) -> None:
        """Print a sentence; a closed terminal or pipe interrupts the program."""
        try:
            print(sentence, flush=True)
        except OSError:
            self.noted = self.noted or signal.SIGPIPE
            # Otherwise, flushing the buffer at exit would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _note(self, number: int, _: FrameType | None) -> None:
        self.noted = self.noted or signal.Signals(number)
