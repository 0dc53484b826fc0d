"""Tables that tests write into pages: a run of some systems leaves the columns of the others as they are."""

from __future__ import annotations

from support.engines_page import EngineAnswers

MARK = "<!-- The table is written by nox -s kernel; change the tests, not the table. -->"
PAGE = f"""# Kernels

{MARK}

|  | Debian 12<br>Linux 6.1 | Debian 13<br>Linux 6.12 |
| --- | --- | --- |
| a container opens its gpu | yes | - |
| docker gives a gpu | not asked | **no** |

<!-- End of the table. -->

More.
"""
WRITTEN = f"""# Kernels

{MARK}

|  | Debian 12<br>Linux 6.1 | Debian 13<br>Linux 6.13 |
| --- | --- | --- |
| a container opens its gpu | yes | yes |
| docker gives a gpu | not asked | - |

<!-- End of the table. -->

More.
"""


def test_a_column_that_is_kept_stays_beside_one_that_is_written(tmp_path):
    page = tmp_path / "kernels.md"
    page.write_text(PAGE)
    answers = EngineAnswers("kernel")

    answers.keep(str(page), "Debian 12")
    answers.keep(str(page), "Debian 14")
    answers.note("Debian 13", "Linux 6.13", "a container opens its gpu", "yes")
    answers.write_into(str(page))

    assert page.read_text() == WRITTEN
