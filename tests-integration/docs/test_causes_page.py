"""docs/reference/no-gpu-causes.md says of each cause what the table of the tests says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from amd_ctk.doctor.run import check_names
from support.documentation import read_page

PAGE = "docs/reference/no-gpu-causes.md"
TABLE = runpy.run_path(str(Path(__file__).parents[2] / "packages/amd-ctk/tests/doctor/causes.py"))
ROW = re.compile(r"^\| (\d+) \| .+ \| `([a-z-]+)` \| (?:`([a-z-]+)`)? ?\|$", re.MULTILINE)

WITHOUT_CHECK = re.compile(r"^\| (\d+) \| .+ \| none: .+?(?:; `([a-z-]+)` notes it)? \|  \|$", re.MULTILINE)


def test_the_page_names_the_check_of_each_cause() -> None:
    rows = {int(number): check for number, check, _ in ROW.findall(read_page(PAGE))}

    assert rows == {number: check for number, (check, *_) in TABLE["CAUSES"].items()}


def test_a_cause_without_a_check_has_a_reason() -> None:
    found = re.findall(
        r"^\| (\d+) \| .+ \| none: .+?(?:; `([a-z-]+)` notes it)? \|  \|$", read_page(PAGE), re.MULTILINE
    )

    assert {int(number): check for number, check in found} == {
        number: check for number, (check, _) in TABLE["WITHOUT_CHECK"].items()
    }


def test_further_checks_exist() -> None:
    further = {check for *_, check in ROW.findall(read_page(PAGE)) if check}

    assert further <= {*check_names()}
