"""Run a program on a terminal of a given size, a real one from the kernel (pty(7))."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

# Colours and weights (ECMA-48: SGR).
STYLE = re.compile(r"\x1b\[[0-9;]*m")
# fish 4 asks what the terminal can do, and waits for an answer (ECMA-48: DA).
QUESTION, ANSWER = "\x1b[c", b"\x1b[?62c"
SECONDS = 120
# Written after a program's output: when this has been read, so has all the output.
END = "\0the program has ended\0"


def _take_terminal() -> None:
    """Make standard input the terminal of this process, so that Ctrl-C reaches it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell makes its background processes ignore this signal, and may have started the tests so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A terminal with a program on it."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], columns: int, rows: int) -> None:
        self._own, self._theirs = pty.openpty()
        self.resize(columns, rows)
        self.settings = termios.tcgetattr(self._theirs)
        self.shown = ""
        self.process = subprocess.Popen(
            words,
            # These two variables would override the terminal's size.
            env={name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
            | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one thread
        )
        # Becomes readable when the program has ended.
        self._ended = os.pidfd_open(self.process.pid)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal and notify its program."""
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._own, keys.encode())

    def wait_for(self, text: str) -> str:
        """Return the output from now on until this text appears; AssertionError."""
        start = len(self.shown)
        end = time.monotonic() + SECONDS
        while text not in self.shown[start:]:
            assert time.monotonic() < end, f"{text!r} is not in {self.shown[start:]!r}"
            self._read()
        return self.shown[start:]

    def wait(self) -> int:
        """Return the exit code of the program when it has ended and all its output has been read."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < end, f"the program does not end: {self.shown!r}"
            self._read(self._ended)
        self._read_rest()
        return self.process.returncode

    def page(self) -> list[str]:
        """Return the lines that the program last drew from the upper left corner."""
        return without_styles(self.shown.rpartition("\x1b[H")[2].partition("\x1b[?")[0]).split("\n")

    def is_as_before(self) -> bool:
        """Return whether the terminal has the same settings as before the program."""
        return termios.tcgetattr(self._theirs) == self.settings

    def close(self) -> None:
        """End the program, if it is still running, and close the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._ended)
        os.close(self._own)
        os.close(self._theirs)

    def _read_rest(self) -> None:
        """Read the rest of the output."""
        while select.select([self._own], [], [], 0)[0]:
            self._read()
        os.write(self._theirs, END.encode())
        end = time.monotonic() + SECONDS
        while not self.shown.endswith(END):
            assert time.monotonic() < end, f"the terminal is stopped: {self.shown!r}"
            self._read()
        self.shown = self.shown.removesuffix(END)

    def _read(self, *others: int) -> bool:
        """Read output for a moment, or until another descriptor is readable."""
        if self._own not in select.select([self._own, *others], [], [], 0.1)[0]:
            return False
        read = os.read(self._own, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
        if QUESTION in read:
            os.write(self._own, ANSWER)
        self.shown += read
        return True


@contextmanager
def on_terminal(
    words: Sequence[str], environment: Mapping[str, str], *, columns: int, rows: int = 24
) -> Iterator[Terminal]:
    """Run a program on a terminal of this size."""
    terminal = Terminal(words, environment, columns, rows)
    try:
        yield terminal
    finally:
        terminal.close()


def shown_on_terminal(
    words: Sequence[str], environment: Mapping[str, str], *, columns: int, rows: int = 24, styled: bool = False
) -> tuple[int, str]:
    """Return a program's exit code and output; unless `styled`, without styles and trailing blanks."""
    with on_terminal(words, environment, columns=columns, rows=rows) as terminal:
        code = terminal.wait()
        shown = terminal.shown
    return code, shown if styled else without_styles(shown)


def without_styles(shown: str) -> str:
    """Return output without colours, weights and trailing blanks."""
    return re.sub(r" +$", "", STYLE.sub("", shown), flags=re.MULTILINE)
