"""Exclusive GPUs that the containers of one pod share, told by the IPC namespace that their engine lets them join."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager

import pytest

from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make an IPC namespace")

# What images bring along, and engines write into the spec: names of pods, sandboxes and of the first container.
LABELS = {
    "io.kubernetes.pod.uid": "1",
    "io.kubernetes.cri.sandbox-id": "sandbox",
    "io.kubernetes.cri-o.SandboxID": "sandbox",
    "io.podman.annotations.pod-id": "pod",
    "com.docker.compose.project": "shop",
    "io.container.manager": "libpod",
}


@pytest.fixture
def host(exclusive_host):
    """Return four GPUs, each exclusive to one pod."""
    Tracker(exclusive_host).settings.set_exclusive_to_pods()
    return exclusive_host


@contextmanager
def sandbox():
    """Give the path of the IPC namespace of a process, as the first container of a pod has one."""
    command = ["unshare", "--ipc", "sh", "-c", "echo; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield f"/proc/{process.pid}/ns/ipc"
        process.kill()


def start(host, name, ipc, *numbers, run_directory="", **more):
    """Reserve as a container that joins an IPC namespace, "" for one of its own."""
    gpus = locate_gpus(host)
    spec = {"linux": {"namespaces": [{"type": "pid"}, {"type": "ipc", **({"path": ipc} if ipc else {})}]}, **more}
    container = StartingContainer(
        container_id=name, spec=spec, bundle="/", root="/run/runc", run_directory=run_directory
    )
    return claim_nodes(host, container, granted=[gpus[number] for number in numbers], located=gpus).reserve()


def users(host):
    return {gpu.number: [use.container_id for use in gpu.containers] for gpu in Tracker(host).status().gpus}


@pytest.mark.needs("namespaces")
def test_containers_of_one_pod_share_its_exclusive_gpus_and_are_all_listed(host):
    with sandbox() as first, sandbox() as second:
        assert start(host, "server", first, 0, 1)
        assert start(host, "helper", first, 1)
        with pytest.raises(GpusRefused, match="GPU 1 is in use by container helper"):
            start(host, "other", second, 1)
        with pytest.raises(GpusRefused, match="GPU 1 is in use by container helper"):
            start(host, "alone", "", 1)

        assert users(host) == {0: ["server"], 1: ["server", "helper"], 2: [], 3: []}


@pytest.mark.needs("namespaces")
def test_a_pod_is_one_holder_when_its_shared_gpu_becomes_exclusive(host):
    Tracker(host).set_accessibility("0,1", exclusive=False)
    with sandbox() as path:
        for name, ipc, gpu in (("server", path, 0), ("helper", path, 0), ("one", "", 1), ("two", "", 1)):
            assert start(host, name, ipc, gpu)

        change = Tracker(host).set_accessibility("0,1", exclusive=True)

    assert (change.changed, change.in_use) == ((0,), (1,))


@pytest.mark.needs("namespaces")
def test_two_paths_of_one_namespace_are_the_same_pod(host):
    with sandbox() as path, open(path, encoding="utf-8") as opened:
        assert start(host, "server", path, 0)
        assert start(host, "helper", f"/proc/self/fd/{opened.fileno()}", 0)


@pytest.mark.parametrize("path", ["", "/proc/self/ns/ipc", "/proc/999999999/ns/ipc", "/etc"])
def test_a_path_that_is_no_namespace_of_a_pod_shares_nothing(host, path):
    assert start(host, "server", path, 0)

    with pytest.raises(GpusRefused, match="GPU 0 is in use by container server"):
        start(host, "helper", path, 0)


def test_annotations_and_variables_of_an_image_make_no_pod(host):
    environment = {"env": [f"{name}={value}" for name, value in LABELS.items()]}
    with sandbox() as path:
        assert start(host, "server", path, 0, annotations=LABELS, process=environment)

        with pytest.raises(GpusRefused, match="GPU 0 is in use by container server"):
            start(host, "copy", "", 0, annotations=LABELS, process=environment)


def test_pods_share_nothing_without_the_setting(exclusive_host):
    with sandbox() as path:
        assert start(exclusive_host, "server", path, 0)

        with pytest.raises(GpusRefused, match="GPU 0 is in use by container server"):
            start(exclusive_host, "helper", path, 0)


def test_a_container_from_before_the_setting_keeps_its_gpus_alone(exclusive_host):
    with sandbox() as path:
        assert start(exclusive_host, "server", path, 0)
        Tracker(exclusive_host).settings.set_exclusive_to_pods()

        with pytest.raises(GpusRefused, match="GPU 0 is in use by container server"):
            start(exclusive_host, "helper", path, 0)


def test_a_users_own_engine_joins_no_pod(host, tmp_path):
    with sandbox() as path:
        assert start(host, "server", path, 0)

        with pytest.raises(GpusRefused, match=r"GPUs \[0\] are exclusive, which users get only with a reservation"):
            start(host, "helper", path, 0, run_directory=str(tmp_path))


@pytest.mark.needs("namespaces")
def test_a_container_that_was_adopted_is_in_the_pod_in_which_it_runs(machine):
    def claim_in(ipc, name):
        holder = machine.holder(name, creator=machine.start_process())
        gpus = locate_gpus(machine.host)[:1]
        return reserve(machine.book, Claim(holder=holder, wanted=gpus, ways=("env",), ipc=ipc))

    machine.tracker.settings.set_exclusive_to_pods()
    minor = locate_gpus(machine.host)[0].render_minor
    rule = {"allow": True, "type": "c", "major": 226, "minor": minor, "access": "rw"}
    with sandbox() as first, sandbox() as second:
        # The first container of its pod has ended, and a process of another pod has that one's id.
        namespaces = [{"type": "pid"}, {"type": "ipc", "path": second}]
        init = machine.run_untracked("server", linux={"namespaces": namespaces, "resources": {"devices": [rule]}})
        (machine.proc / str(init) / "ns").mkdir()
        (machine.proc / str(init) / "ns" / "ipc").symlink_to(first)
        machine.tracker.reset()
        machine.tracker.set_accessibility("0", exclusive=True)

        with pytest.raises(GpusRefused, match="GPU 0 is in use by container server"):
            claim_in(second, "other")
        assert claim_in(first, "helper")

    assert machine.users()[0] == ["server", "helper"]
