"""Containers of pods, for `podman kube play`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amd_ctk.engines.engine_address import find_own_settings
from amd_ctk.explain import kube
from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.engine_view import find_runtime
from amd_ctk.explain.kube import is_kube_file, read_pod
from amd_ctk.explain.run_words import parse_run

POD = """
# two documents
apiVersion: v1
kind: ConfigMap
metadata: {name: gpus}
data: {AMD_VISIBLE_DEVICES: "1", LABEL: map}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: training}
spec:
  template:
    spec:
      securityContext: {supplementalGroups: [110], runAsUser: 7}
      volumes:
        - {name: kfd, hostPath: {path: /dev/kfd, type: CharDevice}}
        - {name: dri, hostPath: {path: /dev/dri}}
      initContainers: [{name: first, image: i}]
      containers:
        - name: main
          image: rocm/pytorch
          env: [{name: A, value: b}, {name: EMPTY}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
          envFrom: [{configMapRef: {name: gpus}}, {secretRef: {name: key}}]
          resources: {limits: {amd.com/gpu=0: 1, memory: 1Gi}}
          securityContext: {runAsUser: 1000, runAsGroup: 44, capabilities: {add: [SYS_ADMIN]}}
          volumeMounts: [{name: kfd, mountPath: /dev/kfd}, {name: dri, mountPath: /dev/dri}]
"""

AMD_RUNTIME = "/usr/bin/amd-container-runtime"


@pytest.fixture
def pod(tmp_path, host):
    """Return a function that writes a file and reads its container `main`."""
    made = host()

    def read(text, name="main"):
        path = tmp_path / "pod.yaml"
        path.write_text(text)
        return read_pod(str(path), name, made)

    return read


def with_container(**fields):
    container = {"name": "main", "image": "i", **fields}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})


@pytest.mark.needs("root")
def test_a_container_of_a_pod_says_what_podman_run_says(pod):
    assert pod(POD) == Container(
        engine="podman",
        settings=("devices", "env"),
        environment=("AMD_VISIBLE_DEVICES=1", "LABEL=map", "A=b", "EMPTY="),
        devices=("amd.com/gpu=0", "/dev/kfd:/dev/kfd"),
        capabilities=("SYS_ADMIN",),
        user="1000:44",
        groups=("110",),
        image="rocm/pytorch",
        unread=("env NODE: fieldRef", "envFrom: secretRef", "hostPath: /dev/dri"),
    )


# Podman 5.4.2 and 5.8.6 start all of these without a GPU; a name with "=" is that of a CDI device.
@pytest.mark.parametrize("key", ["limits", "requests"])
@pytest.mark.parametrize("name", ["amd.com/gpu", "amd.com/cpx_nps4", "gpu.amd.com/mi300x", "nvidia.com/gpu"])
def test_a_resource_of_kubernetes_gives_podman_no_gpu(pod, key, name):
    container = pod(with_container(resources={key: {name: 1, "memory": "1Gi"}}))

    assert container.devices == ()
    assert container.problems == (
        f"Podman gives no GPU for {name}, which a device plugin of Kubernetes serves: write amd.com/gpu=0: 1",
    )


def test_podman_before_5_4_gives_no_gpu_for_a_name_in_limits(pod, monkeypatch):
    monkeypatch.setattr(kube, "find_version", lambda *_: (4, 3, 1))

    container = pod(with_container(resources={"limits": {"amd.com/gpu=0": 1}}))

    assert (container.devices, container.problems) == (
        (),
        ("Podman 4.3.1 reads no device below resources: amd.com/gpu=0 needs Podman 5.4, or use podman run",),
    )


@pytest.mark.needs("root")
def test_an_init_container_has_what_the_pod_says(pod):
    assert pod(POD, "first") == Container(
        engine="podman", user="7", groups=("110",), image="i", settings=("devices", "env")
    )


def test_a_container_that_is_not_there_is_named_with_those_that_are(pod, tmp_path):
    with pytest.raises(ExplainError) as raised:
        pod(POD, "web")

    assert raised.value.message == f"{tmp_path}/pod.yaml has no container web"
    assert raised.value.hint == "it has first, main"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_container(envFrom=[{"configMapRef": {"name": "gpus"}}]), "configmap gpus not found"),
        (
            with_container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gpus", "key": "b"}}}]),
            "cannot set env A: key b not found in configmap gpus",
        ),
        ("apiVersion: v1\nkind: [", "a document of .*pod.yaml is not YAML: "),
        ("apiVersion: v1\n" + "---\n" * 101, "has more than 100 documents, which are not read"),
        ("apiVersion: v1\nkind: Service\n", "has no pod that Podman starts"),
        ("apiVersion: apps/v1\nkind: StatefulSet\n", "has no pod that Podman starts"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [1, {name: [main]}]}\n", "has no container main"),
    ],
)
def test_a_pod_that_podman_would_refuse_ends_in_a_sentence(pod, text, message):
    with pytest.raises(ExplainError, match=message):
        pod(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD, True),
        (with_container(), True),
        ("services: {web: {image: i, environment: {apiVersion: v1}}}\n", False),
        ("", False),
    ],
)
def test_a_file_of_pods_is_distinguished_from_a_compose_file(tmp_path, text, expected):
    (tmp_path / "file").write_text(text)

    assert is_kube_file(str(tmp_path / "file")) is expected


def test_the_command_reads_a_pod(amd_ctk, host, tmp_path):
    host()
    (tmp_path / "pod.yaml").write_text(with_container(volumeMounts=[]))

    shown = amd_ctk("explain", str(tmp_path / "pod.yaml"), "web")

    assert (shown.returncode, shown.stderr) == (
        2,
        f"{tmp_path}/pod.yaml has no container web (it has main)\n",
    )


def test_the_default_runtime_of_podman_is_read_from_its_own_files(host):
    made = host()
    for file, text in {
        "etc/containers/containers.conf": f'[engine]\nruntime = "amd"\n[engine.runtimes]\namd = ["{AMD_RUNTIME}"]\n',
        "etc/docker/daemon.json": '{"default-runtime": "runc"}\n',
    }.items():
        path = Path(made.root, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert find_runtime(Container(engine="podman"), made).is_amd_runtime
    assert not find_runtime(Container(engine="docker"), made).is_amd_runtime


@pytest.mark.parametrize("file", ["containers.conf", "containers.conf.d/99-amd.conf"])
def test_podman_without_root_reads_its_users_own_files_too(host, file):
    made = host()
    path = Path(made.path("/home/u1/.config/containers"), file)
    path.parent.mkdir(parents=True)
    path.write_text(f'[engine.runtimes]\namd = ["{AMD_RUNTIME}"]\n')

    asked = Container(engine="podman", runtime="amd")

    assert find_runtime(asked.replace(own_settings="/home/u1/.config"), made).is_amd_runtime
    assert find_runtime(asked, made).refusal


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "/home/u1"}, "/home/u1/.config"),
        ({"HOME": "/home/u1", "XDG_CONFIG_HOME": "/settings"}, "/settings"),
        # Behind sudo, which keeps no variable.
        ({}, ""),
    ],
)
def test_only_other_users_than_root_have_own_files(environment, directory, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_own_settings(environment) == directory

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_own_settings(environment) == ""


def test_a_service_of_root_has_no_own_files(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    own, roots = ("--url=unix:///run/user/1000/podman/podman.sock",), ("--url=unix:///run/podman/podman.sock",)

    assert find_own_settings({"HOME": "/home/u1"}, "podman", own) == "/home/u1/.config"
    assert find_own_settings({"HOME": "/home/u1"}, "podman", roots) == ""


def test_podman_behind_sudo_is_that_of_root_whatever_sudo_keeps(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert parse_run(["podman", "run", "image"], {"HOME": "/home/u1"}).is_rootless
    assert not parse_run(["podman", "run", "image"], {"HOME": "/home/u1"}, is_sudo=True).is_rootless


def test_podman_4_passes_no_limits_on_and_starts_no_job(pod, monkeypatch):
    monkeypatch.setattr(kube, "find_version", lambda *_: (4, 3, 1))

    assert pod(POD).devices == ("/dev/kfd:/dev/kfd",)
    with pytest.raises(ExplainError, match="Podman 4 cannot start a Job"):
        pod(POD.replace("kind: Deployment", "kind: Job"))
