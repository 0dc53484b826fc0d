"""The lint session finds words that are not plain technical English."""

from __future__ import annotations

from textwrap import dedent

from words import main

MODULE = '''
    """Mend leases."""

    ours = 1  # whoever reads this


    def shall(recipe):
        """Return a line."""
        return f"{ours} of ours"
    '''


def test_comments_strings_and_names_of_a_module_are_read(tmp_path, capsys):
    (tmp_path / "module.py").write_text(dedent(MODULE))

    assert main([str(tmp_path)]) == 1

    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/module.py:2: 'Mend' is not a word of manuals: write fix, repair",
        f"{tmp_path}/module.py:4: 'ours' is not a word of manuals: write the name of the thing",
        f"{tmp_path}/module.py:4: 'whoever' is not a word of manuals: write the user who",
        f"{tmp_path}/module.py:7: 'shall' is not a word of manuals: write must, will",
        f"{tmp_path}/module.py:7: 'recipe' is not a word of manuals: write options",
        f"{tmp_path}/module.py:9: 'ours' is not a word of manuals: write the name of the thing",
    ]


def test_every_line_of_a_page_is_read(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Remove\n\nTakes out what is ours.\nIs mended, and starts anew; recommended shallow hours.\n")

    assert main([str(page)]) == 1

    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"{page}:3",
        f"{page}:4",
        f"{page}:4",
    ]


def test_plain_words_pass(tmp_path, capsys):
    (tmp_path / "page.md").write_text("# Remove\n\nRemoves everything amd-ctk added.\n")

    assert main([str(tmp_path)]) == 0

    assert capsys.readouterr().out == ""
