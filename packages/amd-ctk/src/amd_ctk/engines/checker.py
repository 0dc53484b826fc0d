"""Ask the engine itself, where it is installed, whether it would take a configuration."""

from __future__ import annotations

import os
import shutil  # noqa: TID253  no container start comes here
import subprocess  # noqa: TID253
import tempfile  # noqa: TID253

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.engines.engine import Engine

SECONDS = 30
HINT = "nothing was changed; --no-validate does it all the same"


class RefusedByEngine(ToolkitError):
    """The engine would not start with the configuration."""


def check(engine: Engine, text: str, path: str, *, program: str = "") -> None:
    """Return if the engine takes `text` as its file `path`, or is not here to be asked; RefusedByEngine.

    Where the engine shows what it understood, `program` has to be in it.
    """
    checker = shutil.which(engine.check_command("")[0])
    if checker is None:
        return
    with tempfile.TemporaryDirectory(prefix="amd-ctk-") as directory:
        file = os.path.join(directory, os.path.basename(path))
        with open(file, "w", encoding="utf-8", newline="") as copy:
            copy.write(text)
        accepted, words = _run(engine, checker, file)
    if not accepted and not (engine.check_unknown and engine.check_unknown in words):
        sentence = words.strip().splitlines()[-1].replace(file, path)
        raise RefusedByEngine(f"{engine.name} refuses the new {path}: {sentence}", hint=HINT)
    if accepted and engine.check_prints_configuration and program not in words:
        raise RefusedByEngine(
            f"{engine.name} would not see the runtime in {path}: a file imported there replaces the same section",
            hint="name that file with --config-path",
        )


def _run(engine: Engine, checker: str, file: str) -> tuple[bool, str]:
    """Return whether the engine takes a file, and what it says."""
    words = [checker, *engine.check_command(file)[1:]]
    environment = {**os.environ, **engine.check_environment(file)}
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {SECONDS} seconds"
    except OSError as error:
        return False, f"it cannot be run: {error.strerror}"
    if done.returncode == 0:
        return True, done.stdout
    return False, done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
