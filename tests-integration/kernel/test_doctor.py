"""`amd-ctk doctor --container` under a real kernel: what opening a real node says inside, in its words."""

from __future__ import annotations

import json

import pytest

from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND
from kernel.engines import IMAGE

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

NAME = "examined"


@pytest.fixture
def examine(machine, docker):
    """Return a function that starts a container of Docker, and returns what doctor found bad in it, by check."""

    def examine(words):
        said = docker(f"--detach --name={NAME} {words} {IMAGE} sleep 3000")
        # By its id: engines are asked for a name, and an emulated one needs longer than doctor waits.
        short = said.split()[-1][:12]
        said = machine.run(f"{ON_SIMULATED_HOST} amd-ctk doctor --container={short} --json 2>/tmp/errors", check=False)
        assert said, machine.run(f"cat /tmp/errors; docker logs {NAME} 2>&1")
        machine.run(f"docker kill {NAME}")
        checks = json.loads(said)["checks"]
        assert any(check["id"] == "inside-nodes" for check in checks)
        return {
            check["id"]: check["words"].replace(short, NAME)
            for check in checks
            if check["id"].startswith("inside-") and check["state"] == "bad"
        }

    return examine


def test_doctor_finds_a_node_that_the_device_cgroup_refuses_and_nothing_else(machine, examine, kfd):
    machine.run("mkdir -p /srv/open && { [ -e /srv/open/node ] || mknod -m 666 /srv/open/node c 226 129; }")

    bad = examine(f"--user=1000 -e AMD_VISIBLE_DEVICES=0 --volume=/srv/open/node:{SECOND}")

    refused = {"inside-cgroup": f"the device cgroup of container {NAME} refuses {SECOND} (226:129)"}
    without_gpu = {"inside-kfd": f"/dev/kfd opens to container {NAME}, but KFD gives it no GPU"}
    assert bad == (refused if kfd == "/dev/kfd opens" else refused | without_gpu)


def test_doctor_finds_a_node_that_is_closed_to_the_user(machine, examine):
    group = machine.run(f"stat -c %g {FIRST}").strip()

    bad = examine(f"--user=1000 --runtime=runc --device=/dev/kfd --device={FIRST}")

    assert bad["inside-access"] == f"user 1000 with groups 1000 may not open /dev/kfd, which is 0660 0:{group}"
