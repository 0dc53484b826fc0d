"""What `import amdgpu_simulator` offers, and the version of the program."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import amdgpu_simulator
from support.described import undescribed


def test_every_name_of_the_front_page_is_there():
    assert [name for name in amdgpu_simulator.__all__ if not callable(getattr(amdgpu_simulator, name))] == []


def test_help_describes_every_field_and_parameter():
    assert undescribed(amdgpu_simulator) == []


def test_the_version_is_that_of_the_distribution():
    words = [sys.executable, "-m", "amdgpu_simulator", "--version"]

    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert printed == f"amdgpu-simulator version {version('amdgpu-simulator')}\n"
    assert amdgpu_simulator.__version__ == version("amdgpu-simulator")
