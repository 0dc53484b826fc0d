"""The programs that tests run: the toolkit's, beside the interpreter of the tests, and the engines of the machine."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

# Engines live in sbin, which the PATH of a login shell may lack.
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def our_program(name: str) -> Path:
    """Return the path of one of this project's programs."""
    program = Path(sys.executable).parent / name
    assert program.exists(), f"{name} is not installed beside {sys.executable}"
    return program


def engine_program(name: str) -> Path:
    """Return the path of a program of the machine; skip the test where there is none, and fail it in CI."""
    require_programs(name)
    return Path(str(shutil.which(name, path=SEARCH_PATH)))


def require_programs(*names: str) -> None:
    """Skip the test where the machine lacks one of these programs, and name all that it lacks; fail it in CI."""
    missing = [name for name in names if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        _miss(f"not installed: {', '.join(missing)}")


def require_module(name: str) -> Any:
    """Return a module that only some sessions install; skip the test where it is missing, and fail it in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        _miss(f"the module {name} is not installed")


def require_root() -> None:
    """Skip the test where engines cannot be started, and fail it in CI."""
    if os.geteuid() != 0:
        _miss("containers are made here by root only")


def _miss(reason: str) -> None:
    import pytest  # The demo, which shares this module, runs without it.

    # A runner that lost its engines must not look like one that tested them.
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)
