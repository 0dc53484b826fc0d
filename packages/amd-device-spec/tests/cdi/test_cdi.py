"""CDI specs: what each device holds, and that the spec of any host keeps the specification's rules."""

from __future__ import annotations

import re
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amd_device_spec.cdi import STRATEGIES
from amd_device_spec.cdi.spec import CdiOptions, build_cdi_spec, check_options
from amd_device_spec.cdi.validate import form_problems
from amd_device_spec.cdi.validate_host import host_problems
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_discovery.errors import SpecError
from amdgpu_simulator import build_host, profile_names
from amdgpu_simulator.random_profile import random_profile

KFD = {
    "path": "/dev/kfd",
    "type": "c",
    "major": 510,
    "minor": 0,
    "fileMode": 0o666,
    "permissions": "rw",
    "uid": 0,
    "gid": 110,
}
# As the specification words them.
DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


@pytest.fixture
def spec_of(tmp_path):
    """Return a function that builds the spec of a simulated host."""

    def build(profile, hooks=None, keep_host_mode=False, **options):
        host = build_host(tmp_path / "host", profile, bare=True)
        gpus = find_gpus(host)
        return build_cdi_spec(
            gpus, find_device_nodes(host, gpus), CdiOptions(**options), hooks=hooks, keep_host_mode=keep_host_mode
        )

    return build


def node(path, minor, gid):
    return {**KFD, "path": path, "major": 226, "minor": minor, "gid": gid}


@pytest.mark.needs("root")
def test_a_device_has_its_card_its_render_node_and_kfd(spec_of):
    spec = spec_of("mi210-4", name_strategy="index")

    assert spec["cdiVersion"] == "0.5.0"
    assert spec["kind"] == "amd.com/gpu"
    assert spec["devices"][0] == {
        "name": "0",
        "containerEdits": {"deviceNodes": [node("/dev/dri/card3", 3, 44), node("/dev/dri/renderD130", 130, 110), KFD]},
    }
    assert list(spec) == ["cdiVersion", "kind", "devices"]


def test_all_has_every_drm_node_and_kfd_once(spec_of):
    spec = spec_of("mi210-4", name_strategy="index")

    last = spec["devices"][-1]
    assert last["name"] == "all"
    assert [each["path"] for each in last["containerEdits"]["deviceNodes"]] == [
        *("/dev/dri/card3", "/dev/dri/renderD130", "/dev/dri/card4", "/dev/dri/renderD131"),
        *("/dev/dri/card2", "/dev/dri/renderD129", "/dev/dri/card1", "/dev/dri/renderD128"),
        "/dev/kfd",
    ]


def test_a_host_without_card_nodes_offers_render_nodes(tmp_path):
    host = build_host(tmp_path / "host", "one-gpu")
    (tmp_path / "host/dev/dri/card0").unlink()
    gpus = find_gpus(host)

    spec = build_cdi_spec(gpus, find_device_nodes(host, gpus), CdiOptions(name_strategy="index", with_all=False))

    assert [device["name"] for device in spec["devices"]] == ["0"]
    paths = [each["path"] for each in spec["devices"][0]["containerEdits"]["deviceNodes"]]
    assert paths == ["/dev/dri/renderD128", "/dev/kfd"]


def test_annotations_say_what_one_gpu_is_and_raise_the_version(spec_of):
    spec = spec_of("mi300x-8-cpx", annotations=True)

    by_name = {device["name"]: device for device in spec["devices"]}
    assert spec["cdiVersion"] == "0.6.0"
    assert by_name["1"]["annotations"] == {
        "gpu.amd.com/gfx-target": "gfx942",
        "gpu.amd.com/vram-bytes": "25769803776",
        "gpu.amd.com/compute-partition": "CPX",
        "gpu.amd.com/memory-partition": "NPS4",
        "gpu.amd.com/partition-rank": "1",
        "gpu.amd.com/numa-node": "0",
    }
    assert "annotations" not in by_name["all"]


@pytest.mark.needs("root")
def test_groups_are_the_nodes_own_and_raise_the_version(spec_of):
    spec = spec_of("one-gpu", additional_gids=True, name_strategy="index", with_all=False)

    assert spec["cdiVersion"] == "0.7.0"
    assert spec["devices"][0]["containerEdits"]["additionalGids"] == [44, 110]


def test_the_modes_of_the_host_are_kept_where_asked_for(spec_of):
    spec = spec_of("one-gpu", keep_host_mode=True)

    modes = {each["fileMode"] for each in spec["devices"][0]["containerEdits"]["deviceNodes"]}
    assert modes == {0o660}


def test_hooks_stand_once_for_all_devices(spec_of):
    claim = {"path": "/usr/bin/python3", "args": ["python3", "claim"], "timeout": 60}
    release = {"path": "/usr/bin/python3", "args": ["python3", "release"], "timeout": 60}

    spec = spec_of("one-gpu", hooks={"createRuntime": [claim], "poststop": [release]})

    assert spec["containerEdits"] == {
        "hooks": [{"hookName": "createRuntime", **claim}, {"hookName": "poststop", **release}]
    }


def test_a_version_that_cannot_carry_the_content_is_refused(spec_of):
    with pytest.raises(
        SpecError, match=r"^a CDI spec of version 0\.5\.0 cannot hold annotations \(give --spec-version"
    ):
        spec_of("one-gpu", annotations=True, spec_version="0.5.0")


def test_a_later_version_is_taken_as_asked_for(spec_of):
    assert spec_of("one-gpu", spec_version="0.8.0")["cdiVersion"] == "0.8.0"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"vendor": "a"}, "the vendor 'a' has fewer than two characters (as in --vendor=example.com)"),
        ({"vendor": "9.com"}, "the vendor '9.com' does not begin with a letter (as in --vendor=example.com)"),
        ({"device_class": "g"}, "the class 'g' has fewer than two characters (as in --class=gpu)"),
        ({"device_class": "gpu-"}, "the class 'gpu-' does not end with a letter or digit (as in --class=gpu)"),
        ({"device_class": "g pu"}, "the class 'g pu' contains ' ' (as in --class=gpu)"),
        (
            {"spec_version": "0.5"},
            "CDI has no version 0.5 (it has 0.1.0, 0.2.0, 0.3.0, 0.4.0, 0.5.0, 0.6.0, 0.7.0, 0.8.0, 1.0.0, 1.1.0)",
        ),
    ],
)
def test_options_that_no_engine_takes_are_refused(options, sentence):
    with pytest.raises(SpecError) as refusal:
        check_options(CdiOptions(**options))

    assert str(refusal.value) == sentence


@pytest.mark.parametrize("profile", [name for name in profile_names() if name != "no-driver"])
def test_the_spec_of_every_known_host_is_valid_and_true(tmp_path, profile):
    assert_valid_and_true(build_host(tmp_path / "host", profile, bare=True), CdiOptions())


@settings(max_examples=25)
@given(
    st.randoms(use_true_random=False),
    st.builds(
        CdiOptions,
        name_strategy=st.sampled_from(STRATEGIES),
        with_all=st.booleans(),
        annotations=st.booleans(),
        additional_gids=st.booleans(),
    ),
)
def test_the_spec_of_any_host_is_valid_and_true(random, options):
    with tempfile.TemporaryDirectory() as directory:
        assert_valid_and_true(build_host(f"{directory}/host", random_profile(random), bare=True), options)


def assert_valid_and_true(host, options):
    gpus = find_gpus(host)
    if not gpus:
        return
    nodes = find_device_nodes(host, gpus)

    spec = build_cdi_spec(gpus, nodes, options)

    assert form_problems(spec) == []
    assert list(host_problems(spec, gpus, nodes)) == []
    names = [device["name"] for device in spec["devices"]]
    assert len(names) == len(set(names))
    assert [name for name in names if not DEVICE_NAME.fullmatch(name)] == []
    for device in spec["devices"]:
        paths = [each["path"] for each in device["containerEdits"]["deviceNodes"]]
        assert len(paths) == len(set(paths))
        assert paths[-1] == "/dev/kfd"
        assert all(each["major"] > 0 for each in device["containerEdits"]["deviceNodes"])
