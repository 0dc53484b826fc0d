from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import amd_gpu_tracker


def test_the_version_is_that_of_the_distribution() -> None:
    assert amd_gpu_tracker.__version__ == version("amd-gpu-tracker")


def test_python_m_amd_gpu_tracker_is_the_program() -> None:
    words = [sys.executable, "-m", "amd_gpu_tracker", "--version"]

    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said == f"amd-gpu-tracker version {amd_gpu_tracker.__version__}\n"
