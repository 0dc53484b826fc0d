"""CDI devices of Docker under a real kernel, with the tracker's hooks."""

from __future__ import annotations

import pytest

from kernel.containers import ON_SIMULATED_HOST, SECOND
from kernel.engines import IMAGE

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

# The fixture's runtime is amd-container-runtime, which has nothing to do with these devices.
WITH_RUNC = "--runtime=runc"


@pytest.fixture(scope="module", autouse=True)
def cdi_of_docker(machine, docker, cdi):
    """Skip where Docker does not know CDI."""
    version = machine.run("docker version --format '{{.Server.Version}}'")
    if int(version.partition(".")[0]) < 25:
        pytest.skip(f"Docker {version.strip()} does not know CDI")


def test_docker_gives_root_and_a_user_a_cdi_device_that_opens_and_no_other(docker):
    command = f'open-nodes {SECOND}; open-numbers 226:128; su user -c "open-nodes {SECOND}"'

    seen = docker(f"{WITH_RUNC} --device=amd.com/gpu=1 {IMAGE} sh -c '{command}'")

    assert seen == f"{SECOND} opens\n226:128 Operation not permitted\n{SECOND} opens\n"


def test_docker_refuses_a_cdi_device_that_is_exclusive_and_in_use(machine, docker):
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker 1 exclusive")
    docker(f"{WITH_RUNC} --detach --name=holder --device=amd.com/gpu=1 {IMAGE} sleep 3000")

    said = docker(f"{WITH_RUNC} --device=amd.com/gpu=1 {IMAGE} true")
    machine.run("docker kill holder")
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker 1 shared")

    assert "GPUs [1] are exclusive and already in use" in said
