from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_generated_pages_are_what_the_code_says() -> None:
    check = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )

    assert (check.stderr, check.returncode) == ("", 0)
