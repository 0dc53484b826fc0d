"""The grammar of choices: every form, every refusal, and what holds for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.choices.grammar import Choice, Condition, parse_choice
from amdgpu_discovery.errors import RequestError

CONDITIONS = (
    "conditions are gfx942, gfx94X, MI300X, vram:64GiB, numa:0, xgmi, discrete, integrated, spx to cpx, group:NAME"
)


@pytest.mark.parametrize(
    ("request_text", "word", "count"),
    [
        ("auto", "auto", 1),
        ("auto:2", "auto", 2),
        ("free", "free", 1),
        ("free:16", "free", 16),
        ("AUTO:2", "auto", 2),
        (" auto : 2 ", "auto", 2),
        ("auto:02", "auto", 2),
        ("auto:2,", "auto", 2),
    ],
)
def test_a_choice_says_how_many(request_text, word, count):
    choice = parse_choice(request_text)

    assert (choice.word, choice.count, choice.conditions) == (word, count, ())


@pytest.mark.parametrize(
    ("condition", "kind", "wanted", "amount"),
    [
        ("gfx942", "gfx", "gfx942", 0),
        ("gfx90a", "gfx", "gfx90a", 0),
        ("gfx94X", "gfx", "gfx94x", 0),
        ("GFX110X", "gfx", "gfx110x", 0),
        ("MI300X", "model", "MI300X", 0),
        ("mi210", "model", "MI210", 0),
        ("vram:64GiB", "vram", "", 64),
        ("vram:512MiB", "vram", "", 512),
        ("numa:1", "numa", "", 1),
        ("xgmi", "xgmi", "", 0),
        ("discrete", "discrete", "", 0),
        ("integrated", "integrated", "", 0),
        ("cpx", "mode", "CPX", 0),
        ("SPX", "mode", "SPX", 0),
        ("group:Team-a_1.x", "group", "Team-a_1.x", 0),
    ],
)
def test_a_condition_says_what_a_gpu_must_be(condition, kind, wanted, amount):
    (parsed,) = parse_choice(f"auto:1+{condition}").conditions

    assert (parsed.kind, parsed.text, parsed.value, parsed.amount) == (kind, condition, wanted, amount)


@pytest.mark.parametrize("request_text", ["all+discrete+numa:0", "all&discrete&numa:0", "ALL + discrete & numa:0"])
def test_plus_and_ampersand_mean_the_same(request_text):
    assert parse_choice(request_text).replace(text="") == Choice(
        text="",
        word="all",
        count=0,
        conditions=(
            Condition(kind="discrete", text="discrete"),
            Condition(kind="numa", text="numa:0", amount=0),
        ),
    )


@pytest.mark.parametrize(
    "request_text",
    [
        *("", "0", "+1", "0-2", "all", "ALL,0", "none", "void", "0xEA35F57CC80DEB35", "0000:03:00.0:p1"),
        *("amd.com/gpu=all", "autos", "freedom", "automatic:2", "all:2", "gfx942", "1+2"),
    ],
)
def test_a_word_that_names_gpus_is_no_choice(request_text):
    assert parse_choice(request_text) is None


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("auto:2,0", "'auto:2' cannot be combined with '0': name GPUs, or say how many"),
        ("0,auto:2", "'auto:2' cannot be combined with '0': name GPUs, or say how many"),
        ("auto:1,auto:1", "'auto:1' is written twice, but a choice stands alone (as in auto:2)"),
        ("auto, auto ,auto", "'auto' is written twice, but a choice stands alone (as in auto:2)"),
        ("auto:1,auto:1,0", "'auto:1' cannot be combined with '0': name GPUs, or say how many"),
        ("auto:1,free:1", "'auto:1' cannot be combined with 'free:1': name GPUs, or say how many"),
        ("all+discrete,3", "'all+discrete' cannot be combined with '3': name GPUs, or say how many"),
        ("auto:", "'auto:' does not say how many GPUs (as in auto:2)"),
        ("auto:x", "'auto:x' does not say how many GPUs (as in auto:2)"),
        ("auto:-1", "'auto:-1' does not say how many GPUs (as in auto:2)"),
        ("auto:1:2", "'auto:1:2' does not say how many GPUs (as in auto:2)"),
        ("auto:\u0661", "'auto:\u0661' does not say how many GPUs (as in auto:2)"),
        ("free:0", "'free:0' asks for no GPU (write none)"),
        ("auto:1+", f"'auto:1+' has an empty condition ({CONDITIONS})"),
        ("all+", f"'all+' has an empty condition ({CONDITIONS})"),
        ("auto:1++xgmi", f"'auto:1++xgmi' has an empty condition ({CONDITIONS})"),
        ("auto:1+vram", "'vram' is not an amount of memory (as in vram:64GiB)"),
        ("auto:1+vram:64", "'vram:64' is not an amount of memory (as in vram:64GiB)"),
        ("auto:1+vram:GiB", "'vram:GiB' is not an amount of memory (as in vram:64GiB)"),
        ("auto:1+vram:64GB", "'vram:64GB' is not an amount of memory (as in vram:64GiB)"),
        ("auto:1+numa", "'numa' is not a NUMA node (as in numa:0)"),
        ("auto:1+numa:a", "'numa:a' is not a NUMA node (as in numa:0)"),
        ("auto:1+group:", "'group:' names no group (as in group:NAME)"),
        ("auto:1+group:a b", "'group:a b' names no group (as in group:NAME)"),
        ("auto:1+group:-a", "'group:-a' names no group (as in group:NAME)"),
        ("auto:1+gfx", f"'gfx' is not a condition ({CONDITIONS})"),
        ("auto:1+gfxX", f"'gfxX' is not a condition ({CONDITIONS})"),
        ("auto:1+gfx9-4-generic", f"'gfx9-4-generic' is not a condition ({CONDITIONS})"),
        ("auto:1+MI9", f"'MI9' is not a condition ({CONDITIONS})"),
        ("auto:1+xgmi:1", f"'xgmi:1' is not a condition ({CONDITIONS})"),
        ("auto:1+\x1b[2J", f"'\\x1b[2J' is not a condition ({CONDITIONS})"),
        ("auto" + "+xgmi" * 17, "a choice with 17 conditions is too long (at most 16 are read)"),
        (
            "amd.com/gpu=auto:2",
            (
                "'auto:2' is not a CDI device: a CDI spec is static, and what a choice means depends on the moment"
                " (write auto:2 without 'amd.com/gpu=')"
            ),
        ),
    ],
)
def test_a_choice_gone_wrong_is_refused_in_one_sentence(request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        parse_choice(request_text)

    assert str(refusal.value) == sentence


def test_a_number_of_any_length_is_a_count():
    assert parse_choice("auto:" + "9" * 5000).count > 10**15


def test_a_request_that_no_process_could_be_given_is_refused_before_it_is_read():
    with pytest.raises(RequestError) as refusal:
        parse_choice("auto+" * 100_000)

    assert str(refusal.value) == "a request of 500000 characters is too long (at most 131072 are read)"


WORDS = [
    *("auto", "free", "all", ":", "+", "&", ",", " ", "2", "0", "-", "gfx942", "gfx94X", "MI300X", "vram:", "64GiB"),
    *("numa:", "xgmi", "discrete", "integrated", "cpx", "group:", "a", "amd.com/gpu=", "0x12", "\0", "\n", "\u0661"),
]


@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map("".join), st.text(max_size=60)))
def test_any_text_is_a_choice_or_none_or_is_refused_in_one_printable_line(request_text):
    try:
        choice = parse_choice(request_text)
    except RequestError as refusal:
        assert str(refusal).isprintable()
        assert len(str(refusal)) < 400
    else:
        assert choice is None or (choice.count > 0) is choice.needs_tracker
