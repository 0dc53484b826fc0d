"""Messages that name people, and errors with such a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.errors import Message, NotDone, placeholder

PEOPLE = st.lists(st.integers(0, (1 << 32) - 2), unique=True, max_size=8)
# Names of containers and people have no braces.
WORDS = st.text(st.characters(exclude_characters="{}"), max_size=20)


@given(PEOPLE, st.data())
def test_each_person_is_named_wherever_the_text_has_the_placeholder(people, data):
    words = data.draw(st.lists(st.tuples(WORDS, st.sampled_from(people) if people else st.none()), max_size=20))
    names = {uid: data.draw(WORDS) for uid in people}
    text = "".join(word + ("" if uid is None else placeholder(uid)) for word, uid in words)

    told = Message(text=text, people=tuple(people)).told(names.__getitem__)

    assert told == "".join(word + names.get(uid, "") for word, uid in words)


@given(WORDS, PEOPLE)
def test_a_text_without_placeholders_stays_as_it_is(text, people):
    assert str(Message(text=text, people=tuple(people))) == text


@given(st.text())
def test_a_message_about_nobody_stays_as_it_is(text):
    assert str(Message(text=text)) == text


def test_people_are_numbers_until_their_names_are_looked_up():
    message = Message(text="job a of {1000} and {1001}, not of {1002}", people=(1000, 1001))

    error = NotDone(message, hint="wait")

    assert str(error) == "job a of user 1000 and user 1001, not of {1002} (wait)"
    assert error.unnamed == message
    assert message.told({1000: "ann", 1001: "bob"}.__getitem__) == "job a of ann and bob, not of {1002}"
