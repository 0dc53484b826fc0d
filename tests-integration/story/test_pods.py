"""Pods as services of systemd (Quadlet): their containers share exclusive GPUs where pods have these."""

from __future__ import annotations

import pytest

from support.stand import wait_until

pytestmark = pytest.mark.e2e

DIRECTORY = "/etc/containers/systemd"
POD = """\
[Pod]
PodName=shop
PodmanArgs=--infra-image=busybox:local --infra-command='sleep 86400' --network=none --share=ipc,net
"""
CONTAINER = """\
[Container]
Image=busybox:local
Exec=sleep 86400
StopSignal=KILL
AddDevice=amd.com/gpu=0
{more}
"""
REFUSED = "GPUs [0] are exclusive and already in use"


@pytest.fixture(scope="module")
def server(stand, image_archive):
    """Return a machine with Podman's Quadlet for pods, whose exclusive GPUs belong to pods."""
    if "podman version 4" in stand.run("podman --version"):
        pytest.skip("Quadlet makes pods from Podman 5 on")
    stand.put_image(image_archive)
    stand.run("amd-ctk cdi generate; amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive")
    stand.run("amd-ctk gpu-tracker holder pod")
    stand.run(f"mkdir -p {DIRECTORY}")
    stand.write(f"{DIRECTORY}/shop.pod", POD)
    for name in ("server", "helper"):
        stand.write(f"{DIRECTORY}/{name}.container", CONTAINER.format(more="Pod=shop.pod\n[Service]\nRestart=always"))
    # It has what an image or anybody's unit can say of a pod.
    stand.write(
        f"{DIRECTORY}/other.container", CONTAINER.format(more="Network=none\nLabel=io.podman.annotations.pod-id=shop")
    )
    stand.run("systemctl daemon-reload")
    return stand


def holders(server):
    """Return the names of the containers that have GPU 0."""
    ids = server.run(
        'amd-ctk status --json | python3 -c \'import json, sys; print(*(each["container_id"]'
        ' for each in json.load(sys.stdin)["gpus"][0]["containers"]))\''
    ).split()
    return sorted(server.run(f"podman inspect --format='{{{{.Name}}}}' {' '.join(ids)}").split()) if ids else []


def test_services_of_a_pod_that_start_at_once_share_its_gpu(server):
    server.run("systemctl start server helper 2>&1")

    assert holders(server) == ["systemd-helper", "systemd-server"]


def test_a_service_outside_of_the_pod_is_refused(server):
    server.run("systemctl start other 2>&1", check=False)

    # crun does not show what a hook says.
    assert REFUSED in server.run("amd-ctk gpu-tracker refused")
    assert holders(server) == ["systemd-helper", "systemd-server"]


def test_a_pod_that_starts_again_has_its_gpu_again(server):
    server.run("systemctl restart shop-pod 2>&1; systemctl start server helper 2>&1")
    assert holders(server) == ["systemd-helper", "systemd-server"]

    server.run("podman kill systemd-server")

    wait_until(lambda: holders(server) == ["systemd-helper", "systemd-server"])
    server.run("systemctl stop shop-pod 2>&1")
    wait_until(lambda: holders(server) == [])
