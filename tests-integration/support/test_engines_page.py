"""Tables that tests write into pages: a run with only some systems keeps the columns of the others."""

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


def test_engines_that_were_not_asked_keep_their_columns_in_the_order_of_the_page(tmp_path):
    page = tmp_path / "kernels.md"
    page.write_text(PAGE)
    answers = EngineAnswers("kernel")

    answers.note("Debian 14", "Linux 7.2", "a container opens its gpu", "no")
    answers.note("Debian 12", "Linux 6.2", "docker gives a gpu", "yes")
    answers.keep_others(str(page))

    assert (
        answers.format()
        == """\
|  | Debian 12<br>Linux 6.2 | Debian 13<br>Linux 6.12 | Debian 14<br>Linux 7.2 |
| --- | --- | --- | --- |
| a container opens its gpu | - | - | no |
| docker gives a gpu | yes | **no** | - |"""
    )
