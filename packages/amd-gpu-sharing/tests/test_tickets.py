"""Tickets as files, which may have been damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_sharing.tickets import Ticket, format_ticket, parse_stem, parse_ticket
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.book.lease import ProcessId
from amd_gpu_tracker.errors import WaitRefused

TICKET = Ticket(
    number=42,
    name="train-3",
    request="0-3",
    count=4,
    among=(0, 1, 2, 3),
    since=1000.5,
    waiter=ProcessId(pid=7, start=9),
    boot_id="boot",
    namespace="pid:[1]",
    owner=1000,
    person=1001,
)
CONTENT = (
    b'{"version":2,"request":"0-3","count":4,"among":[0,1,2,3],"since":1000.5,"waiter":{"pid":7,"start":9},'
    b'"boot_id":"boot","namespace":"pid:[1]","owner":1000,"person":1001}\n'
)


def test_a_ticket_is_a_line_of_json():
    assert format_ticket(TICKET) == CONTENT
    assert parse_ticket(42, "train-3", CONTENT) == TICKET


def test_a_ticket_for_parts_of_gpus_says_how_much_memory_they_have():
    content = CONTENT.replace(b"}\n", b',"vram_mb":16384}\n')

    assert format_ticket(TICKET.replace(vram_mb=16384)) == content
    assert parse_ticket(42, "train-3", content) == TICKET.replace(vram_mb=16384)


def test_number_and_name_are_those_of_the_file():
    assert TICKET.stem == "00000000000000000042-train-3"
    assert parse_stem(TICKET.stem) == (42, "train-3")


@pytest.mark.parametrize("stem", ["", "42-a", "000000000000000004x-a", "00000000000000000042", "00000000000000000042-"])
def test_other_files_are_no_tickets(stem):
    assert parse_stem(stem) is None


def test_a_long_request_is_cut_off():
    content = format_ticket(TICKET.replace(request="0," * 50_000))

    assert len(content) < 400


def test_a_ticket_for_every_gpu_of_a_large_host_can_be_read_again():
    ticket = TICKET.replace(among=tuple(range(512)))

    content = format_ticket(ticket)

    assert len(content) < 4096
    assert parse_ticket(42, "train-3", content) == ticket


@pytest.mark.parametrize("name", ["a", "train-3", "A.b_c-9", "x" * 64])
def test_a_job_is_named_as_a_container_is(name):
    require_name(name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "../a", "a/b", ".a", "-a", "a\n", "ä", "\udc80", "\0"])
def test_a_name_that_could_be_another_file_is_refused(name):
    with pytest.raises(WaitRefused, match="is not a name for a job"):
        require_name(name)


@given(st.binary(max_size=200))
def test_a_file_that_no_client_wrote_is_no_ticket(content):
    assert parse_ticket(1, "a", content) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":2', b'"version":3'),
        (b'"pid":7', b'"pid":-7'),
        (b'"pid":7', b'"pid":99999999999'),
        (b'"pid":7', b'"pid":true'),
        (b'"count":4', b'"count":0'),
        (b'"count":4', b'"count":"4"'),
        (b'"among":[0,1,2,3]', b'"among":[0,"1"]'),
        (b'"among":[0,1,2,3]', b'"among":7'),
        (b'"since":1000.5', b'"since":1e999'),
        (b'"since":1000.5', b'"since":null'),
        (b'"boot_id":"boot"', b'"boot_id":[]'),
        (b'"request":"0-3"', b'"requests":"0-3"'),
        (b'"person":1001', b'"person":1001,"vram_mb":-1'),
        (b'"person":1001', b'"person":1001,"vram_mb":4294967296'),
    ],
)
def test_a_damaged_ticket_is_none(old, new):
    assert parse_ticket(42, "train-3", CONTENT.replace(old, new)) is None
