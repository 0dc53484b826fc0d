from __future__ import annotations

import pytest

from amdgpu_discovery.command_line.document import ABSENT, DocumentError
from amdgpu_discovery.command_line.toml_document import TomlDocument

CRI = ("plugins", "io.containerd.grpc.v1.cri")
CONFIG = """\
version = 2 # of the file
# what we pull from
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "mine/pause:1"   # local
  limits = [ 1, 2,   3 ]
[debug]
  level = 'info'
"""


def test_a_new_key_leaves_every_comment_where_it_was() -> None:
    edited = TomlDocument(CONFIG).set((*CRI, "enable_cdi"), True).set(("debug", "level"), "warn")

    assert edited.text == (
        "version = 2 # of the file\n"
        "# what we pull from\n"
        '[plugins."io.containerd.grpc.v1.cri"]\n'
        '  sandbox_image = "mine/pause:1"   # local\n'
        "  limits = [ 1, 2,   3 ]\n"
        "  enable_cdi = true\n"
        "[debug]\n"
        '  level = "warn"\n'
    )


def test_a_new_table_is_written_with_one_header() -> None:
    edited = TomlDocument(CONFIG).set((*CRI, "containerd", "runtimes", "amd"), {"options": {"BinaryName": "/x"}})

    header = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]'
    assert f'\n{header}\nBinaryName = "/x"\n' in edited.text
    assert "runtimes]" not in edited.text


def test_taking_a_new_table_out_gives_back_what_there_was() -> None:
    path = (*CRI, "containerd", "runtimes", "amd")

    edited = TomlDocument(CONFIG).set(path, {"options": {"BinaryName": "/x"}}).remove(path)

    # The blank line that set the new table off stays.
    assert edited.text == CONFIG + "\n"


def test_a_key_that_is_not_there_changes_nothing() -> None:
    document = TomlDocument(CONFIG)

    assert document.get(("plugins", "x")) is ABSENT
    assert document.remove(("plugins", "x")).text == CONFIG
    assert document.set(("version",), 2).text == CONFIG


def test_an_inline_table_is_edited_in_place() -> None:
    edited = TomlDocument('engine = { runtimes = { crun = ["/c"] } } # all\n').set(
        ("engine", "runtimes", "amd"), ["/x"]
    )

    assert edited.text == 'engine = { runtimes = { crun = ["/c"], amd = ["/x"]} } # all\n'


@pytest.mark.parametrize(
    ("text", "beginning"),
    [("a = ", "Unexpected character"), ("a = 1\na = 2\n", 'Key "a" already exists'), ("{}", "Empty key at line 1")],
)
def test_a_text_that_is_not_toml_is_refused(text: str, beginning: str) -> None:
    with pytest.raises(DocumentError) as refused:
        TomlDocument(text)

    assert refused.value.message.startswith(beginning)


def test_a_path_through_something_that_is_no_table_is_an_error() -> None:
    with pytest.raises(DocumentError, match=r'^"engine" is not a table of keys and values$'):
        TomlDocument("engine = 3\n").set(("engine", "runtime"), "amd")
