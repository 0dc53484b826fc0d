"""A shell that runs the commands of a page one after another, as its reader does."""

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
# A reader would not wait longer either.
TIMEOUT = 180.0


class Shell:
    """One bash; `run` returns the output of a command, from both streams, and its exit code.

    It drops the note about a simulated host, which a reader with a GPU does not see.
    """

    def __init__(
        self, directory: Path, environment: dict[str, str], *, enter: Sequence[str] = (), patience: float = TIMEOUT
    ) -> None:
        """Start bash in a directory, with the command prefix `enter`. A command may take `patience` seconds."""
        self._patience = patience
        self._bash = subprocess.Popen(
            [*enter, "bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A page may leave programs in the background; they end with the session.
            start_new_session=True,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._bash.communicate()

    def run(self, command: str) -> tuple[str, int]:
        """Run one command; variables, directory and `$?` stay for the next one."""
        # With an open quote, bash would wait for the closing one.
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
