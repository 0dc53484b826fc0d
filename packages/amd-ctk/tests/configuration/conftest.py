"""Programs that stand in for engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Return a function that puts a program of this name and these lines of shell on an otherwise empty PATH.

    It writes its arguments to the file `<name>.said` beside it.
    """
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))

    def install(name: str, lines: str) -> Path:
        program = directory / name
        program.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "$@" > "$0.said"\n{lines}\n')
        program.chmod(0o755)
        return program

    return install
