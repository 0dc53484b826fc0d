"""Run another program for its output, with a time limit."""

from __future__ import annotations

import shutil
import subprocess

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 3.0
# Of one output; the longest are lists of containers.
LARGEST_CHARACTERS = 4 * 1024 * 1024


class Answer(Value):
    """The output of a program; `problem` says why there is none, "" where there is one.

    `is_late` where it was running still when the time was over.
    """

    output: str = ""
    errors: str = ""
    exit_code: int = 0
    problem: str = ""
    is_late: bool = False
    is_installed: bool = True

    @property
    def succeeded(self) -> bool:
        """Return whether the program ended well."""
        return not self.problem and self.exit_code == 0


def ask(words: Sequence[str], *, seconds: float = SECONDS) -> Answer:
    """Return what a program prints; never raises, and never takes longer than `seconds`."""
    program = shutil.which(words[0])
    if program is None:
        return Answer(problem=f"{words[0]} is not installed", is_installed=False)
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(problem=f"{words[0]} gave no answer within {seconds:g} seconds", is_late=True)
    except OSError as error:
        return Answer(problem=f"{words[0]} cannot be run: {error.strerror}")
    output, errors = (text.decode("utf-8", "replace")[:LARGEST_CHARACTERS] for text in (done.stdout, done.stderr))
    return Answer(output=output, errors=errors, exit_code=done.returncode)


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, as in "28.5.2-ce"; () where there is none."""
    parts = text.replace("-", ".").replace("+", ".").split(".")[:3]
    return tuple(int(part) for part in parts if part.isascii() and part.isdecimal())
