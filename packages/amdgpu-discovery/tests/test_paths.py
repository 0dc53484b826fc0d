"""The functions that stand in for `os.path` say what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.files import (
    absolute,
    directory_of,
    exists,
    is_directory,
    is_file,
    is_link,
    resolve_links,
    writable_by_others,
)

ANY_PATH = st.lists(st.sampled_from(["/", ".", "..", "a", "b c", "//", "é", ".hidden", "x.y"]), max_size=8).map("".join)


@given(ANY_PATH)
def test_an_absolute_path_is_that_of_os(path: str) -> None:
    assert absolute(path) == os.path.abspath(path)


@given(ANY_PATH.filter(lambda path: "//" not in path))
def test_a_directory_is_that_of_os_and_the_present_one_has_a_name(path: str) -> None:
    assert directory_of(path) == (os.path.dirname(path) or ".")


def test_a_link_is_followed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "link-to-link").symlink_to("link")
    (tmp_path / "dangling").symlink_to("nothing")

    assert resolve_links(f"{tmp_path}/link-to-link") == f"{tmp_path}/file"
    assert resolve_links(f"{tmp_path}/dangling") == f"{tmp_path}/nothing"
    assert resolve_links(f"{tmp_path}/file") == f"{tmp_path}/file"
    assert resolve_links(f"{tmp_path}/missing") == f"{tmp_path}/missing"


def test_the_kind_of_each_path_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    names = ("", "file", "link", "pipe", "missing", "file/below", "null\0byte", "dangling")
    paths = [f"{tmp_path}/{name}" for name in names]

    assert [is_directory(path) for path in paths] == [True, False, True, False, False, False, False, False]
    assert [is_file(path) for path in paths] == [False, True, False, False, False, False, False, False]
    assert [exists(path) for path in paths] == [True, True, True, True, False, False, False, False]
    assert [is_link(path) for path in paths] == [False, False, True, False, False, False, False, True]


def test_the_environment_is_that_of_os_whatever_is_in_it() -> None:
    code = (
        "import os; from amdgpu_discovery.host import read_environment;"
        " assert read_environment() == dict(os.environ); print(ascii(read_environment()['ODD']))"
    )

    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={
            b"ODD": b"caf\xe9=\xc3\xa9 ",
            b"PATH": b"/bin",
            b"EMPTY": b"",
            b"PYTHONPATH": os.environb.get(b"PYTHONPATH", b""),
        },
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout == r"'caf\udce9=\xe9 '" + "\n"


@pytest.fixture
def program(tmp_path):
    """Return a program in directories that only their owner may write."""
    path = tmp_path / "opt/bin/runc"
    path.parent.mkdir(parents=True)
    path.touch()
    for part in (path.parent.parent, path.parent, path):
        part.chmod(0o755)
    return path


def test_a_program_of_root_in_directories_of_root_cannot_be_replaced(program):
    assert writable_by_others(str(program)) == ""
    assert writable_by_others("/") == ""


@pytest.mark.parametrize(("which", "mode"), [("", 0o757), ("..", 0o757), ("../..", 0o757)])
def test_a_user_who_may_write_a_program_or_a_directory_above_may_replace_it(program, which, mode):
    part = program / which
    part = part.resolve()
    part.chmod(mode)

    assert writable_by_others(str(program)) == str(part)


def test_a_link_to_a_program_that_may_be_replaced_is_no_protection(program, tmp_path):
    link = tmp_path / "runc"
    link.symlink_to("opt/bin/runc")
    program.parent.chmod(0o757)

    assert writable_by_others(str(link)) == str(program.parent)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@needs_root
def test_a_group_other_than_roots_may_replace_what_it_may_write(program):
    os.chown(program.parent, -1, 12)
    program.parent.chmod(0o775)

    assert writable_by_others(str(program)) == str(program.parent)


@needs_root
def test_in_a_directory_like_tmp_only_owners_replace_files(program):
    program.parent.chmod(0o1777)

    assert writable_by_others(str(program)) == ""
    os.chown(program, 1000, -1)
    assert writable_by_others(str(program)) == str(program)
