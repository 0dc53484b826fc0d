"""Doctor finds nothing bad on healthy hosts: drawn from a seed, with GPUs, partitions, integrated and headless ones.

AMD_HEALTHY_HOSTS=60 examines that many, AMD_HEALTHY_SEED=1000 others.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from amd_ctk.cdi.generate_options import GenerateOptions
from amd_ctk.cdi.specs import FoundGpus, write_spec
from amd_ctk.doctor.check import BAD
from amd_device_spec.cdi.spec import CdiOptions
from amdgpu_simulator import load_profile
from amdgpu_simulator.random_profile import random_profile

HOSTS = int(os.environ.get("AMD_HEALTHY_HOSTS", "6"))
FIRST = int(os.environ.get("AMD_HEALTHY_SEED", "0"))
BUILT_IN = (
    *("headless", "mi210-4", "mi210-8", "mi300a-4", "mi300x-8", "mi308x-8-cpx", "mi355x-8", "one-gpu"),
    *("rx7900xtx-raphael", "strix-halo", "mi300x-vf"),
)
KERNELS = ("5.15.0-130-generic", "6.1.0-28-amd64", "6.8.0-51-generic", "6.12.12-amd64", "6.17.4")
DOCKERS = ("20.10.24", "24.0.9", "26.1.5", "27.5.1", "28.5.2", "29.3.0")


def draw_profile(random):
    """Return a built-in profile, or a random one of which KFD lists every GPU."""
    if random.random() < 0.5:
        return load_profile(random.choice(BUILT_IN))
    while True:
        drawn = random_profile(random)
        if drawn.gpus:
            return drawn.replace(gpus=tuple(gpu.replace(partitions=None) for gpu in drawn.gpus))


def settle(machine, random):
    """Set up engines and CDI as people do, or not at all."""
    machine.write_proc("sys/kernel/osrelease", f"{random.choice(KERNELS)}\n")
    machine.docker["ServerVersion"] = random.choice(DOCKERS)
    if random.random() < 0.3:
        machine.docker |= {"CgroupDriver": "systemd", "SecurityOptions": ["name=seccomp,profile=builtin"]}
    if random.random() < 0.6:
        write_spec(
            FoundGpus(machine.host), GenerateOptions(output="/etc/cdi/amd.json", language="json", options=CdiOptions())
        )
    if random.random() < 0.5:
        machine.add_program("crun", "exit 0")
    if random.random() < 0.4:
        machine.add_program("podman", "echo podman version 5.4.2")
    if random.random() < 0.3:
        machine.write("/etc/containers/containers.conf", '[engine]\nruntime = "crun"\n')
    if random.random() < 0.2:
        machine.write("/etc/docker/daemon.json", '{"log-driver": "journald", "live-restore": true}\n')


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HOSTS))
def test_a_healthy_host_has_nothing_bad(machine, seed):
    random = Random(seed)
    made = machine(draw_profile(random))
    settle(made, random)

    bad = [(result.check, result.finding.words) for result in made.examine() if result.finding.state == BAD]

    assert bad == []
