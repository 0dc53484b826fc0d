"""The lean JSON reader and writer say what json says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.untrusted import plain_json

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture(params=[True, False], ids=["with accelerator", "without accelerator"])
def accelerator(request, monkeypatch):
    """Run a test as on CPython and as on an interpreter without its C half of json."""
    monkeypatch.setattr(plain_json, "HAS_ACCELERATOR", request.param)


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_reading_equals_json(document, indent):
    text = json.dumps(document, indent=indent, ensure_ascii=False)

    assert plain_json.loads(text.encode("utf-8", "surrogatepass")) == document


@given(DOCUMENTS)
def test_writing_equals_json(document):
    assert plain_json.dumps(document).decode() == json.dumps(document, separators=(",", ":"))


@given(st.binary(max_size=20) | st.text(alphabet='{}[]",:01eE.-+ntf \\u\n', max_size=20).map(str.encode))
def test_texts_that_json_refuses_are_refused(content):
    try:
        expected = json.loads(content.decode("utf-8"), parse_constant=plain_json._Reading.parse_constant)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - json has many words for it
            plain_json.loads(content)
    else:
        assert plain_json.loads(content) == expected


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1,}', "Illegal trailing comma before end of object: line 1 column 8 (char 7)"),
        (b'{"a": 1}\n{', "Extra data: line 2 column 1 (char 9)"),
        (b"NaN", "NaN is not JSON"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_a_broken_document_is_refused_with_its_place(content, message):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        plain_json.loads(content)

    # Newer interpreters say more about a trailing comma.
    older = message.replace(
        "Illegal trailing comma before end of object: line 1 column 8 (char 7)", "Expecting property"
    )
    assert str(refusal.value).startswith((message, older))


@pytest.mark.parametrize("trouble", [TypeError, AttributeError])
def test_a_python_whose_c_half_wants_to_be_asked_otherwise_is_served_by_json(monkeypatch, trouble):
    def refuse(*_):
        raise trouble

    monkeypatch.setattr(plain_json._json, "make_scanner", refuse)
    monkeypatch.setattr(plain_json._json, "make_encoder", lambda: None)

    assert plain_json.dumps(plain_json.loads(b'{"a": [1, 2.5]}')) == b'{"a":[1,2.5]}'


@pytest.mark.usefixtures("accelerator")
def test_order_and_big_numbers_survive():
    content = b'{"z":123456789012345678901234567890,"a":[0.1,1e+22,-0.0],"m":"\\ud800\\u0000"}'

    assert plain_json.dumps(plain_json.loads(content)) == content


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("document", [{"a": {1}}, float("nan")])
def test_values_that_json_cannot_express_are_not_written(document):
    with pytest.raises((TypeError, ValueError)):
        plain_json.dumps(document)
