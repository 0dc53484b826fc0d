"""CDI specs as JSON and YAML, and where in the text a part stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_device_spec.cdi.text import BrokenText, format_spec, language_of, parse_spec

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "amd.com/gpu",
    "devices": [{"name": "0x1F", "containerEdits": {"deviceNodes": [{"path": "/dev/kfd", "major": 510}]}}],
}
JSON = """{
  "cdiVersion": "0.5.0",
  "kind": "amd.com/gpu",
  "devices": [
    {
      "name": "0x1F",
      "containerEdits": {
        "deviceNodes": [
          {
            "path": "/dev/kfd",
            "major": 510
          }
        ]
      }
    }
  ]
}
"""
YAML = """cdiVersion: "0.5.0"
kind: "amd.com/gpu"
devices:
- name: "0x1F"
  containerEdits:
    deviceNodes:
    - path: "/dev/kfd"
      major: 510
"""
# Of any shape a spec can have; control characters are no YAML, and no name holds them.
TREES = st.dictionaries(
    st.sampled_from(["cdiVersion", "kind", "devices", "name", "env", "type"]),
    st.recursive(
        st.integers(0, 2**32) | st.booleans() | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
        lambda inner: st.lists(inner, max_size=3),
    ),
    min_size=1,
)


@pytest.mark.parametrize(("language", "text"), [("json", JSON), ("yaml", YAML)])
def test_a_spec_is_indented_and_ends_with_a_newline(language, text):
    assert format_spec(SPEC, language).decode() == text


@pytest.mark.parametrize("text", [JSON, YAML, JSON.replace("  ", "\t"), JSON.replace("\n", "")])
def test_a_text_is_read_whatever_its_language(text):
    assert parse_spec(text.encode()).tree == SPEC


@given(TREES, st.sampled_from(["json", "yaml"]))
def test_a_written_spec_reads_as_the_same_tree(tree, language):
    assert parse_spec(format_spec(tree, language)).tree == tree


@pytest.mark.parametrize(
    ("text", "location", "position"),
    [
        (JSON, ("kind",), (3, 3)),
        (JSON, ("devices", 0, "containerEdits", "deviceNodes", 0, "major"), (11, 13)),
        (JSON, (), (1, 1)),
        # A field that is missing stands where it should be.
        (JSON, ("devices", 0, "containerEdits", "mounts"), (7, 7)),
        (YAML, ("devices", 0, "containerEdits", "deviceNodes", 0, "major"), (8, 7)),
        (YAML, ("devices", 0, "name"), (4, 3)),
    ],
)
def test_a_place_is_a_line_and_a_column(text, location, position):
    assert parse_spec(text.encode()).position(location) == position


def test_numbers_in_yaml_are_what_engines_take_them_for():
    assert parse_spec(b"fileMode: 0666\nname: yes\n").tree == {"fileMode": 0o666, "name": True}


@pytest.mark.parametrize(
    ("content", "line", "column", "message"),
    [
        (b'{"kind": "a",\n "kind": "b"}', 2, 2, 'found duplicate key "kind" with value "b" (original value: "a")'),
        (b'{"devices": [\n', 2, 1, "expecting value"),
        (b'{"kind": "a"\n "devices": []}', 2, 2, "expecting ',' delimiter"),
        (b"kind: a\n\tb: c\n", 2, 1, "found character '\\t' that cannot start any token"),
        (b"kind: a\nname: \xff\n", 2, 1, "it is not text in UTF-8"),
        (b'{"a": ' + b"[" * 100000, 1, 1, "it is nested too deeply"),
        (b"a: " + b"[" * 5000, 1, 1, "it is nested too deeply"),
        (b"? {a: {b: 1}}\n: 2\n", 1, 1, "a list or an object stands where a key belongs"),
        (b"? [[1]]\n: 2\n", 1, 1, "a list or an object stands where a key belongs"),
    ],
)
def test_a_broken_text_says_where_it_breaks(content, line, column, message):
    with pytest.raises(BrokenText) as broken:
        parse_spec(content)

    assert (broken.value.line, broken.value.column, broken.value.message) == (line, column, message)


@pytest.mark.parametrize(
    ("path", "language"), [("a.json", "json"), ("a.yaml", "yaml"), ("a.yml", "yaml"), ("a", "json")]
)
def test_the_end_of_a_name_says_the_language(path, language):
    assert language_of(path) == language


def test_brackets_within_brackets_are_bounded_before_yaml_is_read():
    with pytest.raises(BrokenText, match="it is nested too deeply") as refused:
        parse_spec(b"devices:\n- name: " + b"[" * 101)

    assert refused.value.line == 2
    assert parse_spec(b"name: " + b"[" * 99 + b"]" * 99).tree["name"]


DOUBLED = "".join(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(60))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["&a [*a]", f"a0: &a0 [1]\n{DOUBLED}"])
def test_aliases_that_stand_for_too_much_are_refused(text):
    with pytest.raises(BrokenText, match="its aliases expand to too much"):
        parse_spec(text.encode())


def test_an_alias_stands_for_what_it_names():
    assert parse_spec(b"a: &a [1, 2]\nb: *a\n").tree == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"x{i}: &x{i} {{<<: *x{i - 1}, k{i}: 1}}\n" if i else "x0: &x0 {k: 1}\n" for i in range(400)),
        "a: &a {" + "".join(f"k{i}: 1, " for i in range(800)) + "}\n" + "x: {? !!merge x : [" + "*a, " * 800 + "]}\n",
    ],
    ids=["one on another", "many of many keys"],
)
def test_merges_that_stand_for_too_much_are_refused_before_they_are_made(text):
    with pytest.raises(BrokenText, match="its merge keys expand to too much"):
        parse_spec(text.encode())


def test_a_merge_stands_for_what_it_names():
    tree = parse_spec(b"x-all: &all {a: 1, b: 2}\nfirst: {<<: *all, b: 3}\n").tree

    assert (tree["first"]["a"], tree["first"]["b"]) == (1, 3)


def test_yaml_is_bounded_in_size_and_json_is_not():
    with pytest.raises(BrokenText, match="YAML of more than 512 KiB is not read"):
        parse_spec(b"a: " + b"x" * 600_000)
    assert parse_spec(b'{"a": "' + b"x" * 600_000 + b'"}').tree["a"][:1] == "x"


def test_yaml_that_merges_itself_is_broken():
    with pytest.raises(BrokenText) as raised:
        parse_spec(b"a: &a\n  <<: *a\n  b: 1\n")

    assert raised.value.message == "an object merges itself"
