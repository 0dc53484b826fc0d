"""What the state files say comes back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_tracker.book.lease import LEASE_BEGINS, LEASE_ENDS, Lease, ProcessId, format_lease, parse_lease
from amd_gpu_tracker.book.policy import Policy, TrackedGpu, format_policy, parse_policy
from amd_gpu_tracker.enabled import DISABLED

# No path and no id has a null byte.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
PROCESSES = st.builds(ProcessId, pid=st.integers(1, 2**22), start=st.integers(0, 2**63))
LEASES = st.builds(
    Lease,
    container_id=TEXT,
    root=TEXT,
    bundle=TEXT,
    creator=PROCESSES,
    init=st.none() | PROCESSES,
    pid_file=TEXT,
    cgroup=TEXT,
    gpus=st.lists(TEXT).map(tuple),
    ways=st.lists(TEXT).map(tuple),
    since=st.floats(0, 2**40),
    boot_offset=st.floats(-(2**40), 2**40),
    boot_id=TEXT,
    namespace=TEXT,
)
POLICIES = st.builds(
    Policy,
    enabled=st.booleans(),
    gpus=st.lists(
        st.builds(
            TrackedGpu,
            key=TEXT,
            unique_id=st.integers(0, 2**64 - 1).map(hex),
            partition=TEXT,
            partition_total=st.integers(1, 8),
            exclusive=st.booleans(),
        )
    ).map(tuple),
)


@given(LEASES)
def test_a_lease_comes_back(lease):
    assert parse_lease(format_lease(lease)) == lease


@given(POLICIES)
def test_a_policy_comes_back(policy):
    assert parse_policy(format_policy(policy)) == policy


@pytest.mark.parametrize("unique_id", ["", "0x", "ea35f57cc80deb35", "0xg", "0x0 ", "0x" + 17 * "f", "0x-1"])
def test_a_policy_with_an_id_that_is_none_is_refused(unique_id):
    gpu = TrackedGpu(key="0000:03:00.0/0", unique_id=unique_id, partition="", partition_total=1)

    with pytest.raises(ValueError, match=r"^'unique_id' of a GPU is not an id$"):
        parse_policy(format_policy(Policy(enabled=True, gpus=(gpu,))))


@given(POLICIES)
def test_a_disabled_tracker_is_known_by_its_whole_file(policy):
    assert (format_policy(policy) == DISABLED) is (policy == Policy())


@given(LEASES, st.data())
def test_a_cut_lease_is_refused(lease, data):
    content = format_lease(lease)
    cut = content[: data.draw(st.integers(0, len(content) - 2))]

    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind, `State` makes a StateError of it
        parse_lease(cut)


# Hypothesis takes constants of the program for interesting noise, and this one is a policy.
@given(st.binary().filter(lambda content: content.strip() != DISABLED.strip()))
def test_noise_is_refused_and_nothing_else_happens(content):
    for parse in (parse_lease, parse_policy):
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind, `State` makes a StateError of it
            parse(content)


@pytest.mark.parametrize("field", ["creator", "gpus", "since", "boot_id", "init"])
def test_a_lease_with_a_field_of_another_kind_is_refused(field):
    content = b'{"version":1,"container_id":"c","root":"","bundle":"","creator":{"pid":1,"start":1},"init":null,'
    content += b'"pid_file":"","cgroup":"","gpus":[],"ways":[],"since":1,"boot_offset":1,"boot_id":"b","namespace":"n"}'
    parse_lease(content)
    start = content.index(f'"{field}":'.encode())

    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind, `State` makes a StateError of it
        parse_lease(content[:start] + f'"{field}":true,"was_'.encode() + content[start + 1 :])


@given(LEASES)
def test_a_whole_lease_is_known_by_how_it_begins_and_ends(lease):
    content = format_lease(lease)

    assert content.startswith(LEASE_BEGINS)
    assert content.endswith(LEASE_ENDS)
