"""The lint session wants one value for limits of one name."""

from __future__ import annotations

import pytest

from bounds import main


def check(directory, **modules):
    for name, source in modules.items():
        (directory / f"{name}.py").write_text(source)
    return main([str(directory)])


def test_a_limit_with_two_values_fails_with_both_modules(tmp_path, capsys):
    assert check(tmp_path, one="MOST_GPUS = 64", two="MOST_GPUS: int = 512") == 1

    assert capsys.readouterr().out == (
        "MOST_GPUS has several values; choose names that say what each bounds:\n"
        f"    64: {tmp_path}/one.py\n"
        f"    512: {tmp_path}/two.py\n"
    )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("LARGEST_FILE = 1 << 20", "LARGEST_FILE = 1024 * 1024"),
        ("WIDTHS = (1, 2)", "WIDTHS = (3, 4)"),
        ("def f():\n    MOST_GPUS = 1", "MOST_GPUS = 2"),
        ("MOST_GPUS = MOST_BOARDS", "MOST_GPUS = MOST_BOARDS"),
    ],
    ids=["the-same-number", "no-limit", "inside-a-function", "the-same-name"],
)
def test_other_constants_pass(tmp_path, capsys, one, two):
    assert check(tmp_path, one=one, two=two) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["SECONDS", "LOCK_SECONDS", "TIMEOUT", "DEEPEST", "_LONGEST_NAME"])
def test_names_that_begin_or_end_as_a_limit_are_limits(tmp_path, name):
    assert check(tmp_path, one=f"{name} = 1", two=f"{name} = 2") == 1
