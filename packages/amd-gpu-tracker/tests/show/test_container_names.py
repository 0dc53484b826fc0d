"""Names of containers, as far as engines tell them."""

from __future__ import annotations

import json

import pytest

from amd_gpu_tracker.show.container_names import find_container_names
from amd_gpu_tracker.show.status import ContainerUse


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
def test_what_nobody_tells_is_left_out(use, tmp_path, spec):
    write(tmp_path / "containers/c1/userdata/config.json", spec)

    assert find_container_names([use, use.replace(container_id="c2", bundle="")]) == {}
