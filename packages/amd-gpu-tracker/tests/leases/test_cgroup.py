"""Containers without a pid namespace live as long as their cgroup is occupied."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.leases.cgroup import expand, has_processes
from amdgpu_discovery.choices.oci_spec import shared_cgroup


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/docker/c1", "/docker/c1"),
        ("docker/c1", "/docker/c1"),
        ("system.slice:docker:c1", "/system.slice/docker-c1.scope"),
        ("machine.slice:libpod:c1", "/machine.slice/libpod-c1.scope"),
        ("kubepods-burstable-pod1.slice:cri-containerd:c1",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-c1.scope"),
        (":runc:c1", "/system.slice/runc-c1.scope"),
        ("-.slice:runc:c1", "/runc-c1.scope"),
    ],
)  # fmt: skip
def test_paths_are_where_runc_puts_them(path, place):
    assert expand(path) == place


@pytest.mark.parametrize("place", ["docker/c1", "devices/docker/c1", "unified/docker/c1/inner"])
def test_processes_are_found_in_every_hierarchy_and_below(tmp_path, place):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "cgroup.procs").write_text("77\n")

    assert has_processes("/docker/c1", root=str(tmp_path))
    assert not has_processes("/docker/c2", root=str(tmp_path))


@pytest.mark.parametrize(
    ("cgroups_path", "place"),
    [
        # runc of cgroup v2: beside its own cgroup; of v1: below its own; the systemd driver: a unit of its own name.
        ("c1", "user.slice/user-0.slice/c1"),
        ("c1", "devices/system.slice/engine.service/c1"),
        ("c1", "system.slice/runc-c1.scope"),
        ("pods/c1", "system.slice/pods/c1/inner"),
        # Rootless Podman: a slice of the user's own systemd.
        ("user.slice:libpod:c1", "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-c1.scope"),
        (":runc:c1", "user.slice/user-1000.slice/user@1000.service/user.slice/runc-c1.scope"),
    ],
)
def test_a_cgroup_that_begins_where_its_runtime_was_is_found_by_its_name(tmp_path, cgroups_path, place):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "cgroup.procs").write_text("77\n")

    assert has_processes(cgroups_path, root=str(tmp_path))
    (tmp_path / place / "cgroup.procs").write_text("")
    assert not has_processes(cgroups_path, root=str(tmp_path))


def test_a_cgroup_with_a_path_of_its_own_is_not_looked_for_elsewhere(tmp_path):
    (tmp_path / "system.slice" / "c1").mkdir(parents=True)
    (tmp_path / "system.slice" / "c1" / "cgroup.procs").write_text("77\n")

    assert not has_processes("/docker/c1", root=str(tmp_path))
    assert not has_processes("system.slice:docker:c1", root=str(tmp_path))


def test_an_empty_cgroup_has_no_processes(tmp_path):
    (tmp_path / "docker" / "c1").mkdir(parents=True)
    (tmp_path / "docker" / "c1" / "cgroup.procs").write_text("")

    assert not has_processes("/docker/c1", root=str(tmp_path))
    assert not has_processes("/docker/c1", root=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("linux", "cgroup"),
    [
        ({"namespaces": [{"type": "pid"}], "cgroupsPath": "/docker/c1"}, ""),
        ({"namespaces": [{"type": "mount"}], "cgroupsPath": "/docker/c1"}, "/docker/c1"),
        ({"namespaces": [{"type": "pid", "path": "/proc/7/ns/pid"}], "cgroupsPath": "/docker/c1"}, "/docker/c1"),
        ({"namespaces": None}, "c1"),
        ({"namespaces": [], "cgroupsPath": ""}, "c1"),
        ({"namespaces": [], "cgroupsPath": "pod/c1"}, "pod/c1"),
        (None, ""),
    ],
)
def test_only_containers_without_a_pid_namespace_of_their_own_need_it(linux, cgroup):
    assert shared_cgroup({"linux": linux}, "c1") == cgroup
