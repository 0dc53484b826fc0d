"""Lines that clients and services of other versions must understand."""

from __future__ import annotations

from amd_gpu_sharing.broker.requests.client import with_names
from amd_gpu_sharing.broker.requests.protocol import WAITING, Answer, format_answer, parse_answer, refusal
from amd_gpu_tracker.errors import GpusRefused, Message, WaitOver


def test_a_refusal_that_names_people_has_their_numbers_beside_the_text():
    error = GpusRefused(Message(text="GPU 0 is in use by job a of {0}", people=(0,)), hint="wait")

    line = format_answer(refusal(error))

    assert line == (
        b'{"version":1,"kind":"refused","message":"GPU 0 is in use by job a of {0}","hint":"wait","exit_code":1,'
        b'"numbers":[],"environment":{},"seconds":0,"people":[0]}\n'
    )
    assert with_names(parse_answer(line)) == "GPU 0 is in use by job a of root"


def test_a_refusal_about_nobody_is_its_message():
    line = format_answer(refusal(WaitOver("the job {0} was removed from the queue")))

    assert line == (
        b'{"version":1,"kind":"refused","message":"the job {0} was removed from the queue","hint":"","exit_code":12,'
        b'"numbers":[],"environment":{},"seconds":0,"people":[]}\n'
    )
    assert with_names(parse_answer(line)) == "the job {0} was removed from the queue"


def test_a_person_without_a_name_is_a_number_in_a_list_of_jobs():
    answer = Answer(kind=WAITING, message="1 job before this one ({3999999999}'s train: 1 GPU)", people=(3999999999,))

    assert with_names(answer) == "1 job before this one (3999999999's train: 1 GPU)"
