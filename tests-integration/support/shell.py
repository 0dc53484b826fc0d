"""A shell that types the commands of a page one after the other, as its reader does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from support.simulated import without_note

MARK = "--- end of command "
# A reader who waits longer gives up too.
PATIENCE = 180.0


class Shell:
    """One bash; `run` returns what a command printed, on both streams, and its exit code.

    Short of the line that says that a simulated host is changed: a reader with a GPU does not see it.
    """

    def __init__(
        self, directory: Path, environment: dict[str, str], *, enter: Sequence[str] = (), patience: float = PATIENCE
    ) -> None:
        """Start it in a directory, behind the words `enter`; a command may take `patience` seconds."""
        self._patience = patience
        self._bash = subprocess.Popen(
            [*enter, "bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A page may leave programs in the background; they end with it.
            start_new_session=True,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._bash.communicate()

    def run(self, command: str) -> tuple[str, int]:
        """Type one command; what it leaves behind (variables, directory, `$?`) is there for the next."""
        # With a quote left open bash would wait for the other one.
        check = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stderr
        assert self._bash.stdin
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null; code=$?; echo '{MARK}'$code; (exit $code)\n")
        self._bash.stdin.flush()
        timer = threading.Timer(self._patience, self._end)
        timer.start()
        try:
            return self._read_answer()
        finally:
            timer.cancel()

    def _read_answer(self) -> tuple[str, int]:
        assert self._bash.stdout
        printed = []
        for line in self._bash.stdout:
            text, mark, code = line.partition(MARK)
            printed.append(without_note(text))
            if mark:
                return "".join(printed), int(code)
        raise AssertionError(f"the shell ended before the command did; it printed:\n{''.join(printed)}")

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGTERM)
