"""Names of containers, as far as engines tell them."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.leases import container_names
from amd_gpu_tracker.leases.container_names import LARGEST_BYTES_OF_USERS, find_container_names
from amd_gpu_tracker.leases.status import ContainerUse


@pytest.fixture
def use(tmp_path):
    bundle = tmp_path / "containers" / "c1" / "userdata"
    bundle.mkdir(parents=True)
    return ContainerUse(container_id="c1", root="", bundle=str(bundle), since=0, ways=("env",))


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def test_dockers_name_stands_beside_the_files_it_mounts(use, tmp_path):
    directory = tmp_path / "docker" / "c1"
    write(directory / "config.v2.json", {"Name": "/funny_gagarin"})
    mounts = [{"source": "proc"}, {"source": f"{directory}/hosts"}]
    write(tmp_path / "containers/c1/userdata/config.json", {"mounts": mounts})

    assert find_container_names([use, use]) == {"c1": "funny_gagarin"}


@pytest.mark.parametrize("name", ["containers.json", "volatile-containers.json"])
def test_podmans_names_stand_in_its_lists(use, tmp_path, name):
    write(tmp_path / "containers" / name, [{"id": "c0"}, {"id": "c1", "names": ["practical_williams"]}])

    assert find_container_names([use]) == {"c1": "practical_williams"}


@pytest.mark.parametrize("annotation", ["io.kubernetes.cri.container-name", "nerdctl/name"])
def test_containerds_names_are_annotations(use, tmp_path, annotation):
    write(tmp_path / "containers/c1/userdata/config.json", {"annotations": {annotation: "trainer"}})

    assert find_container_names([use]) == {"c1": "trainer"}


@pytest.mark.parametrize("spec", [None, [], {"annotations": []}, {"mounts": [1, {}]}, {"mounts": None}])
def test_a_container_whose_name_is_unknown_is_left_out(use, tmp_path, spec):
    write(tmp_path / "containers/c1/userdata/config.json", spec)

    assert find_container_names([use, use.replace(container_id="c2", bundle="")]) == {}


def test_a_long_list_of_podmans_is_read_once(use, tmp_path, monkeypatch):
    write(tmp_path / "containers" / "containers.json", [{"id": f"c{n}", "names": [f"name-{n}"]} for n in range(3)])
    read = []
    monkeypatch.setattr(container_names, "read_plain_file", lambda path, **_: (read.append(path), real(path))[1])

    names = find_container_names(use.replace(container_id=f"c{number}") for number in range(3))

    assert names == {"c0": "name-0", "c1": "name-1", "c2": "name-2"}
    assert [path for path in read if path.endswith("/containers.json")] == [
        str(tmp_path / "containers" / "containers.json")
    ]


real = container_names.read_plain_file


def test_a_users_container_does_not_name_one_of_root(use, tmp_path):
    (tmp_path / "users" / "c1").mkdir(parents=True)
    write(tmp_path / "users" / "c1" / "config.json", {"annotations": {"nerdctl/name": "harmless"}})
    write(tmp_path / "containers/c1/userdata/config.json", {"annotations": {"nerdctl/name": "trainer"}})
    users = use.replace(bundle=str(tmp_path / "users" / "c1"), user=os.geteuid())

    assert find_container_names([users, use]) == {"c1": "trainer"}
    assert find_container_names([users]) == {"c1": "harmless"}


def test_of_what_a_user_keeps_root_reads_only_that_users_files_and_not_too_much(use, tmp_path):
    config = tmp_path / "containers/c1/userdata/config.json"
    write(config, {"annotations": {"nerdctl/name": "trainer"}})
    assert find_container_names([use.replace(user=os.geteuid() + 1)]) == {}

    write(config, {"annotations": {"nerdctl/name": "trainer"}, "more": "x" * LARGEST_BYTES_OF_USERS})
    assert find_container_names([use.replace(user=os.geteuid())]) == {}
    assert find_container_names([use]) == {"c1": "trainer"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "names", "annotations", "nerdctl/name", "mounts", "source", "Name"]), inner
        )
    ),
    max_leaves=9,
)


def test_any_content_of_an_engines_file_is_a_name_or_nothing(use, tmp_path):
    @settings(max_examples=200)
    @given(spec=ANYTHING, containers=ANYTHING)
    @example(spec=None, containers=5)
    @example(spec={"mounts": 5, "annotations": {"nerdctl/name": 5}}, containers=[{"id": "c1", "names": 5}])
    def check(spec, containers):
        write(tmp_path / "containers/c1/userdata/config.json", spec)
        write(tmp_path / "containers" / "containers.json", containers)

        assert all(isinstance(name, str) for name in find_container_names([use]).values())

    check()


@pytest.mark.parametrize("content", [b"[" * 200_000, b"\xff", b"", b"5", b'{"mounts":[{"source":"/\\u0000/c1/x"}]}'])
def test_a_file_that_is_no_spec_has_no_name(use, tmp_path, content):
    (tmp_path / "containers/c1/userdata/config.json").write_bytes(content)

    assert find_container_names([use]) == {}
