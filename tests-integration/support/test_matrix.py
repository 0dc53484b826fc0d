"""Tables of whole systems: passed tests are counted, and every other test has a row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from support.matrix import Matrix

MARK = "<!-- The table is written by nox -s kernel; change the tests, not the table. -->"
WRITTEN = f"""{MARK}

|  | Debian 12<br>Linux 6.1 | Debian 13<br>Linux 6.12 |
| --- | --- | --- |
| tests that passed | 1 | 2 |
| docker gives a gpu | not asked | - |

<!-- End of the table. -->
"""


def ran(matrix: Matrix, test: str, system: str, result: str) -> None:
    item = SimpleNamespace(name=test, callspec=SimpleNamespace(id=system), path=Path("test_kernel.py"))
    watching = matrix.watch(item)
    next(watching)
    with pytest.raises(StopIteration):
        watching.send(SimpleNamespace(passed=result == "passed", skipped=result == "skipped", when="call"))


def test_tests_that_passed_are_counted_and_the_others_named(tmp_path, monkeypatch):
    page = tmp_path / "results.md"
    page.write_text(f"{MARK}\n<!-- End of the table. -->\n")
    monkeypatch.setenv("RESULTS", str(page))
    matrix = Matrix("kernel", {"bookworm": ("Debian 12", "Linux 6.1"), "trixie": ("Debian 13", "Linux 6.12")})

    ran(matrix, "test_a_gpu_opens", "bookworm", "passed")
    ran(matrix, "test_docker_gives_a_gpu", "bookworm", "skipped")
    ran(matrix, "test_a_gpu_opens", "trixie", "passed")
    ran(matrix, "test_docker_gives_a_gpu", "trixie", "passed")
    matrix.write_if_asked("RESULTS")

    assert page.read_text() == WRITTEN


def test_a_test_that_passes_again_has_no_row(tmp_path, monkeypatch):
    page = tmp_path / "results.md"
    page.write_text(WRITTEN.replace("not asked", "**no**"))
    monkeypatch.setenv("RESULTS", str(page))
    matrix = Matrix("kernel", {"bookworm": ("Debian 12", "Linux 6.1"), "trixie": ("Debian 13", "Linux 6.12")})

    ran(matrix, "test_a_gpu_opens", "bookworm", "passed")
    ran(matrix, "test_docker_gives_a_gpu", "bookworm", "passed")
    matrix.write_if_asked("RESULTS")

    assert page.read_text() == WRITTEN.replace("| 1 | 2 |\n| docker gives a gpu | not asked | - |", "| 2 | 2 |")
