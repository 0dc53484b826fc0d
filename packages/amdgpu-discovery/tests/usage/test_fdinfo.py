from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.usage.amounts import parse_bytes, parse_count
from amdgpu_discovery.usage.drm_clients import parse_fdinfo

HEAD = b"drm-driver:\tamdgpu\ndrm-client-id:\t4\n"


def test_a_number_without_a_unit_is_bytes():
    assert [parse_bytes(text) for text in ("4096", "4 KiB", "4 kB", "4 MiB", "4 GiB", "4 TB", "-4 KiB", "")] == [
        4096,
        4096,
        4096,
        4 << 20,
        4 << 30,
        0,
        0,
        0,
    ]


def test_a_counter_below_zero_is_nothing():
    assert [parse_count(text) for text in ("7", "18446744073709547520", "9" * 5000, "-1", "٣", "")] == [
        7,
        0,
        0,
        0,
        0,
        0,
    ]


def test_resident_memory_counts_before_its_older_name():
    client = parse_fdinfo(HEAD + b"drm-resident-vram:\t2 MiB\ndrm-memory-vram:\t1 MiB\n")

    assert client is not None
    assert client.vram_bytes == 2 << 20


def test_engines_are_counted_and_how_many_there_are_is_not():
    client = parse_fdinfo(HEAD + b"drm-memory-vram: 0\ndrm-engine-gfx:\t5 ns\ndrm-engine-capacity-gfx:\t2\n")

    assert client is not None
    assert client.engines == (("gfx", 5),)


def test_descriptors_of_other_drivers_and_of_no_drm_node_are_passed_over():
    assert parse_fdinfo(b"drm-driver:\ti915\ndrm-client-id:\t4\ndrm-resident-vram:\t1 MiB\n") is None
    assert parse_fdinfo(b"pos:\t0\nflags:\t02\nmnt_id:\t20\nino:\t5\n") is None
    assert parse_fdinfo(b"") is None


@given(st.binary(max_size=400))
def test_any_content_is_a_client_or_none(content):
    client = parse_fdinfo(content)

    assert client is None or client.vram_bytes >= 0
