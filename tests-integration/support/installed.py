"""Find the programs that tests run: the toolkit's, beside the interpreter of the tests, and the machine's engines."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

# Engines are in sbin, which the PATH of a login shell may lack.
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def our_program(name: str) -> Path:
    """Return the path of one of this project's programs."""
    program = Path(sys.executable).parent / name
    assert program.exists(), f"{name} is not installed beside {sys.executable}"
    return program


def engine_program(name: str) -> Path:
    """Return the path of a program of the machine. If it is missing, skip the test, or fail it in CI."""
    require_programs(name)
    return Path(str(shutil.which(name, path=SEARCH_PATH)))


def require_programs(*names: str) -> None:
    """If the machine lacks any of these programs, name them and skip the test, or fail it in CI."""
    missing = [name for name in names if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        _miss(f"not installed: {', '.join(missing)}")


def require_module(name: str) -> Any:
    """Return a module that only some sessions install. If it is missing, skip the test, or fail it in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        _miss(f"the module {name} is not installed")


def require_root() -> None:
    """If engines cannot be started here, skip the test, or fail it in CI."""
    if os.geteuid() != 0:
        _miss("containers are made here by root only")


def _miss(reason: str) -> None:
    import pytest  # The demo shares this module and has no pytest.

    # A CI run without engines must not look like one that tested them.
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)
