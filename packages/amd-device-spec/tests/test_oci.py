"""Edits to OCI specs: what is added, what is kept, and that a second time changes nothing."""

from __future__ import annotations

import copy
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_device_spec.oci import build_edits
from amd_device_spec.oci_annotation import apply_edits, remove_edits
from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.gpu import DeviceNode

RENDER = DeviceNode(path="/dev/dri/renderD128", major=226, minor=128, mode=0o660, uid=0, gid=110)
KFD = DeviceNode(path="/dev/kfd", major=234, minor=0, mode=0o660, uid=0, gid=110)
HOOK = {"path": "/usr/bin/python3", "args": ["/usr/bin/python3", "/opt/amd_gpu_tracker/hook.py", "release"]}
DENY_ALL = {"allow": False, "access": "rwm"}

RENDER_DEVICE = {
    "path": "/dev/dri/renderD128",
    "type": "c",
    "major": 226,
    "minor": 128,
    "fileMode": 0o666,
    "uid": 0,
    "gid": 110,
}
KFD_DEVICE = {"path": "/dev/kfd", "type": "c", "major": 234, "minor": 0, "fileMode": 0o666, "uid": 0, "gid": 110}
RENDER_RULE = {"allow": True, "type": "c", "major": 226, "minor": 128, "access": "rw"}
KFD_RULE = {"allow": True, "type": "c", "major": 234, "minor": 0, "access": "rw"}


def test_nodes_are_open_to_everybody_inside_and_allowed_by_the_cgroup():
    spec = {"process": {}, "linux": {"resources": {"devices": [DENY_ALL]}}}

    assert apply_edits(spec, build_edits([RENDER, KFD]))

    annotations = spec.pop("annotations")
    assert spec == {
        "process": {},
        "linux": {
            "resources": {"devices": [DENY_ALL, RENDER_RULE, KFD_RULE]},
            "devices": [RENDER_DEVICE, KFD_DEVICE],
        },
    }
    assert json.loads(annotations["com.amd.container-toolkit.edits"]) == {
        "devices": ["/dev/dri/renderD128 c 226:128 438 0 110", "/dev/kfd c 234:0 438 0 110"],
        "rules": ["226:128", "234:0"],
    }


def test_the_hosts_mode_comes_with_the_hosts_groups():
    spec = {"process": {"user": {"uid": 1000, "additionalGids": [7]}}}
    card = DeviceNode(path="/dev/dri/card0", major=226, minor=0, mode=0o660, uid=0, gid=44)

    apply_edits(spec, build_edits([card, RENDER], keep_host_mode=True))

    assert spec["process"]["user"]["additionalGids"] == [7, 44, 110]
    assert [device["fileMode"] for device in spec["linux"]["devices"]] == [0o660, 0o660]


@pytest.mark.parametrize("gid", [0, 65534])
def test_neither_root_nor_a_group_that_the_user_namespace_does_not_map_is_given_away(gid):
    assert build_edits([KFD.replace(gid=gid)], keep_host_mode=True).gids == []


def test_a_device_that_is_there_already_is_kept_as_it_is():
    theirs = {"path": "/dev/kfd", "type": "c", "major": 234, "minor": 0, "fileMode": 0o600, "uid": 5, "gid": 5}
    rule = {"allow": True, "type": "c", "major": 234, "minor": 0, "access": "rwm"}
    spec = {"linux": {"devices": [theirs], "resources": {"devices": [DENY_ALL, rule]}}}

    apply_edits(spec, build_edits([KFD]))

    assert spec == {"linux": {"devices": [theirs], "resources": {"devices": [DENY_ALL, rule]}}}


def test_another_device_in_the_place_of_a_gpu_is_refused():
    theirs = {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 129}

    with pytest.raises(RequestError) as refusal:
        apply_edits({"linux": {"devices": [theirs]}}, build_edits([RENDER, KFD]))

    assert str(refusal.value) == (
        "the container has device 226:129 at /dev/dri/renderD128, where 226:128 belongs"
        " (leave out the --device that puts it there)"
    )


def test_a_rule_that_is_taken_back_does_not_count():
    spec = {"linux": {"resources": {"devices": [KFD_RULE, DENY_ALL]}}}
    edits = build_edits([KFD])

    apply_edits(spec, edits)
    apply_edits(spec, edits)

    assert spec["linux"]["resources"]["devices"] == [KFD_RULE, DENY_ALL, KFD_RULE]


def test_a_rule_that_allows_less_does_not_count():
    rule = {"allow": True, "type": "c", "major": 234, "minor": 0, "access": "r"}
    spec = {"linux": {"resources": {"devices": [rule]}}}

    apply_edits(spec, build_edits([KFD]))

    assert spec["linux"]["resources"]["devices"] == [rule, KFD_RULE]


def test_a_rule_that_denies_the_device_itself_does_not_count():
    denied = {**KFD_RULE, "allow": False}
    spec = {"linux": {"resources": {"devices": [KFD_RULE, denied]}}}

    apply_edits(spec, build_edits([KFD]))

    assert spec["linux"]["resources"]["devices"] == [KFD_RULE, denied, KFD_RULE]


def test_a_rule_for_another_kind_of_device_or_with_odd_numbers_does_not_count():
    rules = [{**KFD_RULE, "type": "b"}, {**KFD_RULE, "minor": [0]}, {**KFD_RULE, "minor": None}]
    spec = {"linux": {"resources": {"devices": [*rules]}}}

    apply_edits(spec, build_edits([KFD]))

    assert spec["linux"]["resources"]["devices"] == [*rules, KFD_RULE]


def test_changes_of_others_to_a_spec_stay():
    spec = {"linux": {"devices": [{"path": "/dev/null"}], "resources": {"devices": [DENY_ALL]}}}
    apply_edits(spec, build_edits([KFD, RENDER]))
    spec["linux"]["devices"][1] = {**KFD_DEVICE, "uid": 1000, "fileMode": 0o600}
    rules = spec["linux"]["resources"]["devices"]
    rules[1] = {**KFD_RULE, "access": "rwm"}
    rules.append({**RENDER_RULE, "minor": 129})

    assert remove_edits(spec)

    assert spec["linux"] == {
        "devices": [{"path": "/dev/null"}, {**KFD_DEVICE, "uid": 1000, "fileMode": 0o600}],
        "resources": {"devices": [DENY_ALL, {**KFD_RULE, "access": "rwm"}, {**RENDER_RULE, "minor": 129}]},
    }


def test_the_same_edits_again_change_nothing():
    spec = {"process": {}, "annotations": {"theirs": "1"}}
    edits = build_edits([RENDER, KFD], poststop=[HOOK])
    apply_edits(spec, edits)
    once = copy.deepcopy(spec)

    apply_edits(spec, edits)

    assert spec == once


def test_other_edits_replace_the_earlier_ones():
    spec = {"linux": {"resources": {"devices": [DENY_ALL]}}}
    apply_edits(spec, build_edits([RENDER, KFD]))

    apply_edits(spec, build_edits([KFD]))

    assert spec["linux"] == {"devices": [KFD_DEVICE], "resources": {"devices": [DENY_ALL, KFD_RULE]}}


def test_nothing_to_add_takes_out_what_was_added():
    spec = {"process": {}}
    apply_edits(spec, build_edits([RENDER, KFD], keep_host_mode=True))

    assert apply_edits(spec, build_edits([]))

    assert spec["linux"] == {"devices": [], "resources": {"devices": []}}
    assert spec["process"] == {"user": {"additionalGids": []}}
    assert spec["annotations"] == {}


@pytest.mark.parametrize(
    "listed",
    [
        {"rules": [DENY_ALL]},
        {"rules": [{"access": "rwm"}]},
        {"rules": ["x"]},
        {"rules": ["226:128:1"]},
        {"rules": ["226:99999999999"]},
        {"rules": [226]},
        {"devices": [7]},
        {"poststop": [{"path": "/theirs"}]},
        {"poststop": [{"path": "/theirs", "args": ["/theirs", 7]}]},
        {"poststop": {}},
        {"mounts": ["/etc/shadow /dev/amd-container-toolkit/226:128"]},
        {"mounts": ["/dev/kfd /etc/shadow"]},
        {"mounts": ["/dev/kfd /srv/nodes/226:128"]},
        {"mounts": ["/dev/kfd /dev/amd-container-toolkit/../shadow"]},
        {"mounts": [7]},
        {"namespaces": []},
    ],
)
def test_an_annotation_takes_away_only_what_the_runtime_added(listed):
    spec = {
        "linux": {"resources": {"devices": [DENY_ALL, {"access": "rwm"}]}},
        "hooks": {"poststop": [{"path": "/theirs"}, {"path": "/theirs", "args": ["/theirs", 7]}]},
        "annotations": {"com.amd.container-toolkit.edits": json.dumps(listed)},
    }

    with pytest.raises(SpecError) as refusal:
        remove_edits(spec)

    assert refusal.value.message == "its annotation com.amd.container-toolkit.edits is not what this toolkit writes"
    assert spec["linux"]["resources"]["devices"] == [DENY_ALL, {"access": "rwm"}]
    assert len(spec["hooks"]["poststop"]) == 2


def test_nodes_with_a_source_are_bound_and_their_numbers_allowed():
    spec = {"mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}]}

    apply_edits(spec, build_edits([RENDER, KFD], sources={"/dev/kfd": "/dev/amd-container-toolkit/234:0"}))

    assert spec["mounts"] == [
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
        {
            "destination": "/dev/kfd",
            "type": "bind",
            "source": "/dev/amd-container-toolkit/234:0",
            "options": ["bind", "rprivate"],
        },
    ]
    assert spec["linux"] == {"devices": [RENDER_DEVICE], "resources": {"devices": [RENDER_RULE, KFD_RULE]}}


def test_bound_nodes_are_taken_out_with_the_rest():
    spec = {"mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}]}
    sources = {
        "/dev/dri/renderD128": "/h/dev/amd-container-toolkit/226:128",
        "/dev/kfd": "/h/dev/amd-container-toolkit/234:0",
    }
    apply_edits(spec, build_edits([RENDER, KFD], sources=sources))

    assert remove_edits(spec)

    assert spec["mounts"] == [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}]
    assert spec["linux"] == {"devices": [], "resources": {"devices": []}}


def test_a_device_that_the_spec_has_is_not_bound_over():
    spec = {"linux": {"devices": [dict(KFD_DEVICE)]}}

    apply_edits(spec, build_edits([KFD], sources={"/dev/kfd": "/dev/amd-container-toolkit/234:0"}))

    assert "mounts" not in spec


FORGED_ENTRIES = {
    "devices": ["x"] * 9000,
    "rules": ["1:2"] * 9000,
    "gids": [1] * 15000,
    "poststop": [{"args": ["amd_gpu_tracker/hook.py"]}] * 1500,
    "env": ["AMD_VRAM_LIMIT_MB=1"] * 2500,
}


@pytest.mark.parametrize("kind", FORGED_ENTRIES)
def test_a_long_annotation_on_a_long_spec_takes_no_more_than_both_together(kind):
    present = 30_000
    spec = {
        "linux": {
            "devices": [{"path": str(number)} for number in range(present)],
            "resources": {"devices": [{"major": number} for number in range(present)]},
        },
        "process": {"user": {"additionalGids": list(range(2, present))}, "env": ["A=1"] * present},
        "hooks": {"poststop": [{"args": [str(number)]} for number in range(present)]},
        "annotations": {"com.amd.container-toolkit.edits": json.dumps({kind: FORGED_ENTRIES[kind]})},
    }
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        remove_edits(spec)
    finally:
        sys.setprofile(None)

    assert calls < 30 * (present + len(FORGED_ENTRIES[kind]))


def test_an_annotation_longer_than_any_that_is_written_is_refused_unread():
    listed = json.dumps({"rules": ["1:2"] * 10_000})

    with pytest.raises(SpecError) as refusal:
        remove_edits({"annotations": {"com.amd.container-toolkit.edits": listed}})

    assert refusal.value.message == "its annotation com.amd.container-toolkit.edits is not what this toolkit writes"


def test_the_annotation_of_the_largest_host_is_read():
    nodes = [
        KFD.replace(path=f"/dev/dri/renderD{128 + number}", major=226, minor=128 + number, gid=4_000_000_000)
        for number in range(256)
    ]
    spec = {}
    apply_edits(spec, build_edits(nodes, keep_host_mode=True, poststop=[HOOK]))

    assert remove_edits(spec)
    assert spec["linux"] == {"devices": [], "resources": {"devices": []}}


def test_a_spec_that_needs_nothing_is_not_touched():
    spec = {"linux": None, "unknown": {"deep": [1.5, None]}}

    assert not apply_edits(spec, build_edits([]))
    assert spec == {"linux": None, "unknown": {"deep": [1.5, None]}}


def test_null_stands_for_nothing_yet():
    spec = {"linux": {"devices": None, "resources": None}, "hooks": None, "annotations": None}

    apply_edits(spec, build_edits([KFD], poststop=[HOOK]))

    assert spec["linux"] == {"devices": [KFD_DEVICE], "resources": {"devices": [KFD_RULE]}}
    assert spec["hooks"] == {"poststop": [HOOK]}


def test_hooks_of_others_stay_in_front():
    spec = {"hooks": {"prestart": [{"path": "/net"}], "poststop": [{"path": "/theirs"}]}}

    apply_edits(spec, build_edits([KFD], poststop=[HOOK]))

    assert spec["hooks"] == {"prestart": [{"path": "/net"}], "poststop": [{"path": "/theirs"}, HOOK]}


def test_a_container_is_told_how_much_memory_is_its_own_and_told_again_a_second_time():
    spec = {"process": {"env": ["A=1", "AMD_VRAM_LIMIT_MB=7"]}}
    apply_edits(spec, build_edits([KFD], vram_mb=4000))

    apply_edits(spec, build_edits([KFD], vram_mb=7))

    # The last entry counts.
    assert spec["process"] == {"env": ["A=1", "AMD_VRAM_LIMIT_MB=7", "AMD_VRAM_LIMIT_MB=7"]}
    assert remove_edits(spec)
    assert spec["process"] == {"env": ["A=1", "AMD_VRAM_LIMIT_MB=7"]}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"linux": []}, "its 'linux' is not an object"),
        ({"linux": {"devices": [7]}}, "its 'linux.devices' is not a list of the expected type"),
        ({"linux": {"devices": {}}}, "its 'linux.devices' is not a list of the expected type"),
        ({"linux": {"resources": 1}}, "its 'linux.resources' is not an object"),
        ({"annotations": "x"}, "its 'annotations' is not an object"),
        (
            {"annotations": {"com.amd.container-toolkit.edits": "[" * 100_000}},
            "its annotation com.amd.container-toolkit.edits is not what this toolkit writes",
        ),
        (
            {"annotations": {"com.amd.container-toolkit.edits": "gone"}},
            "its annotation com.amd.container-toolkit.edits is not what this toolkit writes",
        ),
    ],
)
def test_a_spec_of_another_shape_is_refused(broken, message):
    with pytest.raises(SpecError) as refusal:
        apply_edits(broken, build_edits([KFD]))

    assert refusal.value.message == message


PLACES = ["linux", "devices", "resources", "process", "user", "additionalGids", "hooks", "poststop", "annotations"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(PLACES), inner, max_size=4),
    max_leaves=12,
)


ENTRIES = st.lists(
    st.sampled_from(
        [KFD_DEVICE, RENDER_RULE, KFD_RULE, {**KFD_RULE, "access": "rwm"}, DENY_ALL, HOOK, {}, 110, 7, "A=1"]
    ),
    max_size=4,
)


def _places(**inner):
    return st.none() | st.fixed_dictionaries({}, optional={name: st.none() | what for name, what in inner.items()})


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "linux": _places(devices=ENTRIES, resources=_places(devices=ENTRIES)),
        "process": _places(user=_places(additionalGids=ENTRIES), env=ENTRIES),
        "hooks": _places(poststop=ENTRIES),
    },
)


@given(st.dictionaries(st.sampled_from(PLACES), JSON, max_size=4) | SPECS)
def test_any_spec_is_either_edited_once_or_refused(spec):
    edits = build_edits([RENDER, KFD], keep_host_mode=True, poststop=[HOOK])
    before = copy.deepcopy(spec)
    try:
        apply_edits(spec, edits)
    except SpecError:
        return
    once = copy.deepcopy(spec)

    apply_edits(spec, edits)

    assert spec == once
    remove_edits(spec)
    assert _without_empty(spec) == _without_empty(before)


def _without_empty(value):
    """Drop what is empty or null: an edit may leave an empty list where there was none."""
    if isinstance(value, dict):
        kept = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [], None)}
    return value


@pytest.mark.parametrize(
    ("mib", "total", "variables"),
    [
        (0, 0, []),
        (4000, 0, ["AMD_VRAM_LIMIT_MB=4000"]),
        (4000, 65520, ["AMD_VRAM_LIMIT_MB=4000", "AMD_VRAM_TOTAL_MB=65520", "AMD_VRAM_FRACTION=0.0610"]),
        (8191, 16384, ["AMD_VRAM_LIMIT_MB=8191", "AMD_VRAM_TOTAL_MB=16384", "AMD_VRAM_FRACTION=0.4999"]),
        (16384, 16384, ["AMD_VRAM_LIMIT_MB=16384", "AMD_VRAM_TOTAL_MB=16384", "AMD_VRAM_FRACTION=1.0000"]),
    ],
)
def test_a_part_of_the_memory_is_reported_in_mib_and_as_a_fraction_that_is_never_too_large(mib, total, variables):
    assert build_edits([], vram_mb=mib, vram_total_mb=total).env == variables


@pytest.mark.parametrize(("headroom", "fraction"), [(0, "0.0610"), (300, "0.0564"), (3999, "0.0000"), (5000, "0.0000")])
def test_the_fraction_leaves_the_headroom_out_and_the_limit_does_not(headroom, fraction):
    told = build_edits([], vram_mb=4000, vram_total_mb=65520, vram_headroom_mb=headroom).env

    assert told == ["AMD_VRAM_LIMIT_MB=4000", "AMD_VRAM_TOTAL_MB=65520", f"AMD_VRAM_FRACTION={fraction}"]
