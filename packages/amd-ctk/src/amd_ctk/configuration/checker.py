"""Ask the engine, where it is installed, whether it accepts a configuration."""

from __future__ import annotations

import os
import shutil  # noqa: TID253  no container start comes here
import subprocess  # noqa: TID253
import tempfile  # noqa: TID253

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.engine import Engine

SECONDS = 30
HINT = "nothing was changed; use --no-validate to skip this check"


class RefusedByEngine(ToolkitError):
    """The engine would not start with the configuration."""


def check(engine: Engine, text: str, path: str, *, program: str = "") -> None:
    """Raise RefusedByEngine if the engine is installed and rejects `text` as its file `path`.

    Where the engine prints the configuration it understood, `program` has to be in it.
    """
    if engine.check_command is None or shutil.which(engine.check_command(path)[0]) is None:
        return
    with tempfile.TemporaryDirectory(prefix="amd-ctk-") as directory:
        file = os.path.join(directory, os.path.basename(path))
        with open(file, "w", encoding="utf-8", newline="") as copy:
            copy.write(engine.checked_text(text))
        accepted, words = _run(engine.check_command(file))
    if not accepted and not (engine.check_unknown and engine.check_unknown in words):
        sentence = words.strip().splitlines()[-1].replace(file, path)
        raise RefusedByEngine(f"{engine.name} refuses the new {path}: {sentence}", hint=HINT)
    if accepted and engine.check_prints_configuration and program not in words:
        raise RefusedByEngine(
            f"{engine.name} does not list the runtime when it reads the new {path}",
            hint="it may be too old for the version of the file, or a file imported there replaces the same section",
        )


def _run(command: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether the engine accepts a file, and its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {SECONDS} seconds"
    except OSError as error:
        return False, f"it cannot be run: {error.strerror}"
    if done.returncode == 0:
        return True, done.stdout
    return False, done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
