"""The tracker's directories and files, whatever stood there before."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.state import make_directory
from amd_gpu_tracker.errors import StateError
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.numbering import locate_gpus

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_directory_is_for_all_to_read_and_for_its_owner_to_change_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_directory(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) & 0o022 == 0


def test_a_directory_that_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "a").mkdir(mode=0o700)

    make_directory(str(tmp_path / "a"))

    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o700


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path):
    (tmp_path / "a").write_bytes(b"")

    with pytest.raises(FileError, match=f"^{tmp_path}/a cannot be made: "):
        make_directory(str(tmp_path / "a" / "b"))


def test_whatever_a_policy_says_it_is_read_or_refused(machine):
    path = machine.state.policy_path
    whole = json.loads(Path(path).read_bytes())

    @settings(max_examples=200)
    @given(
        changed=st.dictionaries(st.sampled_from(["version", "enabled", "gpus"]), ANYTHING),
        of_gpu=st.dictionaries(st.sampled_from(["key", "unique_id", "partition", "partition_total", "x"]), ANYTHING),
    )
    @example(changed={"gpus": 5}, of_gpu={})
    @example(changed={"gpus": [5]}, of_gpu={})
    @example(changed={}, of_gpu={"partition_total": [1]})
    def check(changed, of_gpu):
        document = {**whole, "gpus": [{**whole["gpus"][0], **of_gpu}], **changed}
        Path(path).write_text(json.dumps(document))
        try:
            policy = machine.state.read_policy()
        except StateError as error:
            assert str(error).startswith(f"the GPU Tracker's state {path} cannot be understood: ")
        else:
            assert policy.exclusive_keys == frozenset()

    check()


def test_a_lease_that_was_cut_off_may_name_any_gpu(machine):
    machine.create("web", [0, 1])
    path = machine.state.lease_path(("/run/runc", "web"))
    keys = [gpu.key.encode() for gpu in locate_gpus(machine.host, board_ids=False)]

    assert [machine.state.may_name(path, [key]) for key in keys] == [True, True, False, False]

    whole = Path(path).read_bytes()
    for damaged in (whole[:-3], whole[20:], b""):
        Path(path).write_bytes(damaged)
        assert [machine.state.may_name(path, [key]) for key in keys] == [True, True, True, True]

    Path(path).unlink()
    assert not machine.state.may_name(path, keys)
