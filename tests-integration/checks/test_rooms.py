"""The lint session holds two lists that may only shrink."""

from __future__ import annotations

from rooms import main


def check(tmp_path, capsys, *listed):
    for path, source in {
        "amd_ctk/cli.py": "def f():\n    from amd_gpu_tracker.book import Page\nclass Place: ...\nclass _Own: ...",
        "amd_ctk/other.py": "import amd_ctk.cli\nclass _Own: ...",
        "amd_gpu_tracker/book.py": "from amd_gpu_tracker import line\nclass Page: ...",
        "amd_gpu_tracker/line.py": "class Place: ...",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    known = tmp_path / "rooms.txt"
    known.write_text("# What there is:\n\n" + "\n".join(listed))
    return main([str(tmp_path)], known), capsys.readouterr().out.splitlines()


IMPORT = "amd_ctk imports amd_gpu_tracker.book"
DOUBLE = "class Place: amd_ctk.cli amd_gpu_tracker.line"


def test_listed_names_pass(tmp_path, capsys):
    assert check(tmp_path, capsys, IMPORT, DOUBLE) == (0, [])


def test_new_names_fail(tmp_path, capsys):
    new = "new, choose another module or name: "

    assert check(tmp_path, capsys) == (1, [f"{new}{IMPORT}", f"{new}{DOUBLE}"])


def test_names_that_are_gone_must_leave_the_list(tmp_path, capsys):
    assert check(tmp_path, capsys, IMPORT, DOUBLE, "class Line: a b") == (
        1,
        ["gone, remove it from rooms.txt: class Line: a b"],
    )
