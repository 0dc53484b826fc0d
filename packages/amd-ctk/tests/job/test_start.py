"""A command is looked for before anybody waits for GPUs."""

from __future__ import annotations

import pytest

from amd_ctk.job.start import CannotRun, CommandNotFound, require_program


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("missing-program", CommandNotFound, "missing-program cannot be run: it does not exist"),
        ("/missing/program", CommandNotFound, "/missing/program cannot be run: it does not exist"),
        ("/etc", CannotRun, "/etc cannot be run: access is refused"),
        ("/etc/passwd", CannotRun, "/etc/passwd cannot be run: access is refused"),
        ("/etc/passwd/x", CannotRun, "/etc/passwd/x cannot be run: a part of its path is not a directory"),
        ("", CommandNotFound, "'' cannot be run: it does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused(word, kind, message):
    with pytest.raises(CannotRun) as refused:
        require_program(word)

    assert (type(refused.value), refused.value.message) == (kind, message)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Return two directories in which programs are looked for, behind one that is none."""
    directories = [tmp_path / "first", tmp_path / "second"]
    for directory in directories:
        directory.mkdir()
    monkeypatch.setenv("PATH", f"/etc/passwd:{directories[0]}:{directories[1]}")
    return directories


def test_a_program_is_found_where_the_shell_would_find_it(path):
    (path[0] / "train").mkdir()
    (path[1] / "train").symlink_to("/bin/true")

    require_program("train")
    require_program("/bin/true")


def test_a_file_that_may_not_be_run_is_what_was_meant(path):
    (path[0] / "train").write_text("")

    with pytest.raises(CannotRun) as refused:
        require_program("train")

    assert refused.value.message == "train cannot be run: access is refused"


def test_a_program_that_is_nowhere_does_not_exist(path):
    with pytest.raises(CommandNotFound) as refused:
        require_program("train")

    assert refused.value.message == "train cannot be run: it does not exist"
