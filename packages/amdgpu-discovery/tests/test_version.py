from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import amdgpu_discovery


def test_the_version_is_that_of_the_distribution() -> None:
    assert amdgpu_discovery.__version__ == version("amdgpu-discovery")


def test_the_program_says_it_too() -> None:
    words = [sys.executable, "-m", "amdgpu_discovery.simulate", "--version"]

    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said == f"amdgpu-discovery version {amdgpu_discovery.__version__}\n"
