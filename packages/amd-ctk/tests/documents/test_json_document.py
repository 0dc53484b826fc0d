from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_ctk.documents.json_document import JsonDocument
from amdgpu_discovery.command_line.document import ABSENT, DocumentError

AMD = {"path": "/usr/bin/amd-container-runtime", "runtimeArgs": []}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
trees = st.dictionaries(st.sampled_from("abcd") | st.text(max_size=3), values, max_size=4)
paths = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(tuple)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return JSON in one of the layouts that people and programs write."""
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (",", " : "), (" ,", ": ")]))
    text = json.dumps(draw(trees), indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    return draw(st.sampled_from(["", "\n", " \n\t"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + "\n"


@given(texts(), paths, values)
def test_a_set_key_has_its_value_and_the_rest_means_what_it_meant(text: str, path: tuple[str, ...], value: Any) -> None:
    document = JsonDocument(text)
    try:
        before = document.get(path)
    except DocumentError:
        with pytest.raises(DocumentError):
            document.set(path, value)
        return

    edited = document.set(path, value)

    expected = json.loads(text)
    inner = expected
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    assert json.loads(edited.text) == expected
    assert list(json.loads(edited.text)) == list(expected)
    assert before is not ABSENT or edited.get(path) == value


@given(texts(), paths, values)
def test_taking_out_a_new_key_gives_back_every_byte_of_what_had_members(
    text: str, path: tuple[str, ...], value: Any
) -> None:
    document = JsonDocument(text)
    try:
        free = document.get(path) is ABSENT and document.get(path[:-1]) not in ({}, ABSENT)
    except DocumentError:
        free = False
    if not free:
        return

    assert document.set(path, value).remove(path).text == text


@given(texts(), st.sampled_from("abcd"))
def test_a_removed_key_is_gone_and_the_rest_means_what_it_meant(text: str, key: str) -> None:
    edited = JsonDocument(text).remove((key,))

    expected = json.loads(text)
    expected.pop(key, None)
    assert json.loads(edited.text) == expected


@given(texts())
def test_setting_a_key_to_what_it_is_keeps_numbers_and_escapes_of_the_others(text: str) -> None:
    tricky = '{"n": 12345678901234567890123.10E+5, "s": "\\u003cb\\/&>", ' + text.strip()[1:].lstrip()
    if text.strip() == "{}":
        return

    edited = JsonDocument(tricky).set(("features", "cdi"), True)

    assert edited.text.startswith('{"n": 12345678901234567890123.10E+5, "s": "\\u003cb\\/&>", ')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n    "runtimes": {\n        "amd": {\n            "path": "/x"\n        }\n    }\n}'),
        ('{"a":1}', '{"a":1, "runtimes": {"amd": {"path": "/x"}}}'),
        (
            '{\n\t"a": 1e400,\n\t"runtimes": {}\n}\n',
            '{\n\t"a": 1e400,\n\t"runtimes": {\n\t\t"amd": {\n\t\t\t"path": "/x"\n\t\t}\n\t}\n}\n',
        ),
        (
            '{\r\n  "b": [\r\n  ]\r\n}',
            '{\r\n  "b": [\r\n  ],\r\n  "runtimes": {\r\n    "amd": {\r\n      "path": "/x"\r\n    }\r\n  }\r\n}',
        ),
        (
            '{\n  "runtimes": {\n    "nvidia": {"path": "n"}\n  }\n}\n',
            '{\n  "runtimes": {\n    "nvidia": {"path": "n"},\n    "amd": {\n      "path": "/x"\n    }\n  }\n}\n',
        ),
    ],
)
def test_a_new_key_is_laid_out_as_the_text_around_it(text: str, expected: str) -> None:
    assert JsonDocument(text).set(("runtimes", "amd"), {"path": "/x"}).text == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", '{ "b" : [2, {"c": 3}] ,\n "c": "}"\n}'),
        ("b", '{ "a": 1 ,\n "c": "}"\n}'),
        ("c", '{ "a": 1, "b" : [2, {"c": 3}]\n}'),
        ("d", '{ "a": 1, "b" : [2, {"c": 3}] ,\n "c": "}"\n}'),
    ],
)
def test_a_removed_key_takes_one_comma_along(key: str, expected: str) -> None:
    assert JsonDocument('{ "a": 1, "b" : [2, {"c": 3}] ,\n "c": "}"\n}').remove((key,)).text == expected


def test_the_last_key_leaves_an_empty_object() -> None:
    document = JsonDocument('{\n  "a": {\n    "b": 1\n  }\n}').remove(("a", "b"))

    assert document.text == '{\n  "a": {}\n}'
    assert not document.is_empty
    assert document.remove(("a",)).is_empty


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("null", "it is not a JSON object (a configuration begins with { and ends with })"),
        ("[]", "it is not a JSON object (a configuration begins with { and ends with })"),
        ('{"a": 1} x', "Extra data: line 1 column 10 (char 9)"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"a":' * 100_000, "it is nested too deeply"),
    ],
)
def test_a_text_that_is_not_one_json_object_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DocumentError) as refused:
        JsonDocument(text)

    assert str(refused.value) == sentence


def test_a_key_that_stands_twice_is_not_guessed_at() -> None:
    document = JsonDocument('{"runtimes": {"amd": {}}, "runtimes": {}}')

    with pytest.raises(DocumentError, match=r'^"runtimes" occurs 2 times \(keep one of them\)$'):
        document.set(("runtimes", "amd"), AMD)


def test_a_path_through_something_that_is_no_object_is_an_error() -> None:
    with pytest.raises(DocumentError, match=r'^"runtimes" is not a table of keys and values$'):
        JsonDocument('{"runtimes": []}').set(("runtimes", "amd"), AMD)


@pytest.mark.parametrize("text", ["", " \n", "\ufeff", "\ufeff{}"])
def test_texts_that_dockerd_reads_as_an_empty_object_are_one(text: str) -> None:
    document = JsonDocument(text)

    assert (document.is_empty, document.text) == (True, text)


def test_a_byte_order_mark_stays_where_it_was() -> None:
    edited = JsonDocument('\ufeff{"a": 1}').set(("b",), 2)

    assert edited.text == '\ufeff{"a": 1, "b": 2}'
    assert edited.remove(("b",)).text == '\ufeff{"a": 1}'


def test_an_empty_text_becomes_an_object_when_it_gets_a_key() -> None:
    assert JsonDocument("").set(("a",), 1).text == '{\n    "a": 1\n}\n'


def test_a_text_that_is_deep_and_valid_is_edited() -> None:
    deep = '{"a": ' * 700 + "1" + "}" * 700

    edited = JsonDocument(deep).set(("b",), True)

    assert edited.text == f'{deep[:-1]}, "b": true}}'
