"""The end of a program that has something to clean up: signals are noted, and looked at between two steps.

An exception out of a signal's handler can come between starting a process and noting that it was started.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Interrupted(Exception):
    """Somebody wants the program to end: by Ctrl-C, by closing the terminal or the pipe, or by a polite kill."""


class Interrupts:
    """Whether the program is to end; from here on, nothing but `check` ends it."""

    def __init__(self) -> None:
        """Note signals from now on. One that the caller ignores, as nohup does, stays ignored."""
        self.noted: signal.Signals | None = None
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def check(self) -> None:
        """Interrupted if the program is to end."""
        if self.noted:
            raise Interrupted

    def ignore(self) -> None:
        """Pass over signals from now on: at its end Python gives them their defaults back, which kill."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def say(self, sentence: str) -> None:
        """Print a sentence; a terminal or a pipe that is gone interrupts the program."""
        try:
            print(sentence, flush=True)
        except OSError:
            self.noted = self.noted or signal.SIGPIPE
            # What is still in the buffer would fail once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _note(self, number: int, _: FrameType | None) -> None:
        self.noted = self.noted or signal.Signals(number)
