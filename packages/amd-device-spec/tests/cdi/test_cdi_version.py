"""The lowest version of CDI that carries a spec, and who reads it."""

from __future__ import annotations

import pytest

from amd_device_spec.cdi.version import engines_without, needed_version, unread_versions


def spec(name="gpu0", kind="amd.com/gpu", edits=None, top=None, **device):
    return {
        "cdiVersion": "",
        "kind": kind,
        "devices": [{"name": name, "containerEdits": edits or {}, **device}],
        **(top or {}),
    }


@pytest.mark.parametrize(
    ("content", "version", "location"),
    [
        (spec(), "0.3.0", ()),
        (
            spec(edits={"mounts": [{"type": "bind"}]}),
            "0.4.0",
            ("devices", 0, "containerEdits", "mounts", 0, "type"),
        ),
        (spec(name="0"), "0.5.0", ("devices", 0, "name")),
        (
            spec(edits={"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]}),
            "0.5.0",
            ("devices", 0, "containerEdits", "deviceNodes", 0, "hostPath"),
        ),
        (spec(kind="amd.com/gpu.v2"), "0.6.0", ("kind",)),
        (spec(annotations={"a": "b"}), "0.6.0", ("devices", 0, "annotations")),
        (spec(top={"annotations": {"a": "b"}}), "0.6.0", ("annotations",)),
        (spec(edits={"additionalGids": [44]}), "0.7.0", ("devices", 0, "containerEdits", "additionalGids")),
        (spec(top={"containerEdits": {"intelRdt": {"closID": "a"}}}), "0.7.0", ("containerEdits", "intelRdt")),
        (
            spec(name="0", edits={"netDevices": [{"name": "a"}]}, annotations={"a": "b"}),
            "1.1.0",
            ("devices", 0, "containerEdits", "netDevices"),
        ),
    ],
)
def test_content_needs_the_version_that_brought_it(content, version, location):
    need = needed_version(content)

    assert (need.version, need.location) == (version, location)


@pytest.mark.parametrize(
    ("version", "engines"),
    [
        ("0.5.0", []),
        ("0.6.0", ["Podman 4.3"]),
        ("0.8.0", ["Podman 4.3", "Docker 26"]),
        ("1.1.0", ["Podman 4.3", "Docker 26", "Podman 5.4", "Podman 5.8", "Docker 28", "Podman 6.1", "containerd 2.1"]),
    ],
)
def test_engines_that_a_version_leaves_out(version, engines):
    assert engines_without(version) == engines


@pytest.mark.parametrize(
    ("engine", "number", "versions"),
    [
        ("Podman", (6, 1, 1), ("1.1.0",)),
        ("Podman", (5, 4, 2), ("1.0.0", "1.1.0")),
        ("containerd", (2, 1, 9), ("1.1.0",)),
        # Later than all tested ones, not known, and not tested.
        ("Podman", (7,), ()),
        ("Podman", (), ()),
        ("Nerdctl", (2, 1), ()),
    ],
)
def test_versions_that_an_engine_leaves_out(engine, number, versions):
    assert unread_versions(engine, number) == versions
