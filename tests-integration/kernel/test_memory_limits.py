"""Limits on the memory of GPUs under a real kernel with the dmem cgroup: Docker and three versions of runc."""

from __future__ import annotations

import re

import pytest

from kernel.conftest import build_two_gpus
from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND, SIMULATED_HOST, run_bundle
from kernel.dmem_host import (
    ADDRESSES,
    BIND_CGROUPS,
    CGROUPS,
    LOG,
    REGIONS,
    WITHOUT_INTERNET,
    Containers,
    configure,
    load_regions,
)
from kernel.dmem_image import dmem_image
from kernel.engines import IMAGE, start_docker
from kernel.machine import Machine
from support.debian_root import debian_root
from support.debs import META_PACKAGE

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

RUNCS = ("bookworm", "trixie", "forky")
# Those that write the limits of all regions at once.
OLD_RUNCS = (("bookworm", "1.1.5"), ("trixie", "1.1.15"))
AT_ONCE = "sets the limits of several GPUs in one write, which Linux 7.3 and later refuse; install runc 1.2 or later"
FULL = "4K Cannot allocate memory"
GPU_0 = "-e AMD_VISIBLE_DEVICES=0"
CONTROLLERS = "cgroup.controllers"
NO_CONTROLLER = "the kernel has no dmem cgroup (it needs Linux 6.14 or later with CONFIG_CGROUP_DMEM)"


@pytest.fixture(scope="module")
def machine(files, tmp_path_factory):
    """Return a machine with the regions of two simulated GPUs, and nothing of amdgpu."""
    image, module = dmem_image()
    runcs = {f"runcs/{suite}/runc": debian_root(suite) / "usr/sbin/runc" for suite in RUNCS}
    host = build_two_gpus(tmp_path_factory.mktemp("dmem") / "host")
    needed = {name: files[name] for name in ("debs", "rootfs", "rootfs.tar")}
    started = Machine(image, {**needed, **runcs, "gpu_memory.ko": module, "host": host})
    try:
        started.run(BIND_CGROUPS)
        started.run(f"dpkg --force-unsafe-io --install $(ls /srv/debs/*.deb | grep -v {META_PACKAGE})")
        yield started
    finally:
        started.cut_power()


@pytest.fixture(scope="module")
def docker(machine):
    """Return Docker of the release with our runtime."""
    return Containers(machine, start_docker(machine, options=WITHOUT_INTERNET))


@pytest.fixture(autouse=True)
def as_it_comes(machine, docker):
    """Begin each test with both regions, the settings as they come, and no container."""
    load_regions(machine, *ADDRESSES)
    configure(machine)
    yield
    docker.remove_all()


def limits(docker, name):
    """Return the limits of a container that has some, by region, as the kernel has them."""
    lines = [line.split() for line in docker.do(f"exec {name} cat {CGROUPS}/dmem.max").splitlines()]
    return {region: limit for region, limit in lines if limit != "max"}


def last_logged(machine):
    return machine.run(f"tail -n 5 {LOG}")


def test_a_container_is_stopped_at_exactly_its_limit_and_its_neighbour_is_not_touched(docker):
    docker.start("one", f"{GPU_0} -e AMD_VRAM=8GiB")
    docker.start("neighbour", f"{GPU_0} -e AMD_VRAM=4GiB")
    docker.start("unlimited", GPU_0)

    before = docker.allocate("neighbour", FIRST, "2G")
    stopped = docker.allocate("one", FIRST, "8G", "4K")
    after = docker.allocate("neighbour", FIRST, "2G", "4K")

    assert stopped == ["8G allocated", FULL]
    assert (before, after) == (["2G allocated"], ["2G allocated", FULL])
    assert docker.allocate("unlimited", FIRST, "20G") == ["20G allocated"]


def test_two_gpus_of_a_container_have_a_limit_each(docker):
    docker.start("both", "-e AMD_VISIBLE_DEVICES=0,1 -e AMD_VRAM=2GiB")

    assert limits(docker, "both") == dict.fromkeys(REGIONS, str(2 * 2**30))
    assert docker.allocate("both", FIRST, "2G", "4K") == ["2G allocated", FULL]
    assert docker.allocate("both", SECOND, "2G", "4K") == ["2G allocated", FULL]


@pytest.fixture
def tracked(machine, docker):
    """Let GPU Tracker know who has the GPUs."""
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker enable")
    yield
    docker.remove_all()
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker disable")


def test_the_share_of_a_swarm_task_is_its_limit(machine, docker, tracked):
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk config set swarm-vram-resources VRAM")

    docker.start("task", "-e DOCKER_RESOURCE_VRAM=4000")

    assert docker.allocate("task", FIRST, "4000M", "4K") == ["4000M allocated", FULL]


def shown_of_gpu_0(machine, words):
    """Return the cells of the first GPU in a list."""
    line = machine.run(f"{ON_SIMULATED_HOST} amd-ctk {words}").splitlines()[3]
    return re.split(r"  +", line)


def test_lists_show_the_limit_of_a_container_before_it_uses_the_gpu_and_what_counts_towards_it(
    machine, docker, tracked
):
    docker.start("web", f"{GPU_0} -e AMD_VRAM=8GiB")
    before = shown_of_gpu_0(machine, "status --usage")
    in_status = shown_of_gpu_0(machine, "status")

    docker.allocate("web", FIRST, "2G")
    after = shown_of_gpu_0(machine, "status --usage")
    metrics = machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu metrics | grep -E '^amd_gpu_container_(limit|charged)'")

    assert "0.0 of 8.0 GiB" in before
    assert "0.0 of 8.0 GiB" in in_status
    assert "2.0 of 8.0 GiB" in after
    assert [line.rpartition(" ")[2] for line in metrics.splitlines()] == [str(8 * 2**30), str(2 * 2**30)]


def test_an_image_that_asks_for_more_gets_the_administrators_maximum(machine, docker):
    configure(machine, vram_maximum=16384)
    docker.do("import --change 'ENV AMD_VRAM=32GiB' /srv/rootfs.tar greedy:local")

    said = docker.run(f"{GPU_0} greedy:local sh -c 'allocate {FIRST} 16G 4K; env | grep ^AMD_VRAM | sort'")

    assert said.splitlines() == [
        *("16G allocated", FULL, "AMD_VRAM=32GiB"),
        *("AMD_VRAM_FRACTION=0.2500", "AMD_VRAM_LIMIT_MB=16384", "AMD_VRAM_TOTAL_MB=65520"),
    ]


def test_an_update_a_reload_of_systemd_and_a_restart_keep_the_limit(machine, docker):
    docker.start("kept", f"{GPU_0} -e AMD_VRAM=1GiB")

    docker.do("update --memory=256m --memory-swap=256m kept")
    machine.run("systemctl daemon-reload")
    before = docker.allocate("kept", FIRST, "1G", "4K")
    docker.do("restart -t 0 kept")
    after = docker.allocate("kept", FIRST, "1G", "4K")

    assert (before, after) == (["1G allocated", FULL], ["1G allocated", FULL])


def test_a_privileged_container_cannot_lift_its_limit(docker):
    lift = f"echo {REGIONS[0]} max >{CGROUPS}/dmem.max"

    said = docker.run(f"--privileged {GPU_0} -e AMD_VRAM=1GiB {IMAGE} sh -c '({lift}) 2>&1; allocate {FIRST} 1G 4K'")

    refused, *allocated = said.splitlines()
    assert refused.endswith("Operation not permitted")
    assert allocated == ["1G allocated", FULL]


def test_a_privileged_container_with_the_cgroups_of_the_host_can_lift_its_limit(docker):
    """The page says so: nothing holds root who sees the cgroups from above."""
    lift = f"echo {REGIONS[0]} max >{CGROUPS}$(sed -n s/^0:://p /proc/self/cgroup)/dmem.max"

    said = docker.run(
        f"--privileged --cgroupns=host {GPU_0} -e AMD_VRAM=1GiB {IMAGE} sh -c '{lift}; allocate {FIRST} 2G'"
    )

    assert said == "2G allocated\n"


@pytest.mark.parametrize("suite", RUNCS, ids=[f"runc of {suite}" for suite in RUNCS])
def test_each_version_of_runc_sets_the_limit(machine, docker, suite):
    configure(machine, low_level_runtime=f"/srv/runcs/{suite}/runc")

    said = docker.run(f"{GPU_0} -e AMD_VRAM=1GiB {IMAGE} allocate {FIRST} 1G 4K")

    assert said.splitlines() == ["1G allocated", FULL]


@pytest.mark.parametrize(("suite", "version"), OLD_RUNCS, ids=[f"runc {version}" for _, version in OLD_RUNCS])
def test_an_old_runc_sets_no_limits_of_two_gpus_and_the_log_says_so(machine, docker, suite, version):
    configure(machine, low_level_runtime=f"/srv/runcs/{suite}/runc")

    said = docker.run(f"-e AMD_VISIBLE_DEVICES=0,1 -e AMD_VRAM=1GiB {IMAGE} allocate {FIRST} 2G")

    assert said == "2G allocated\n"
    assert f"AMD_VRAM=1GiB is not enforced: runc {version} {AT_ONCE}" in last_logged(machine)


@pytest.mark.parametrize(("suite", "version"), OLD_RUNCS, ids=[f"runc {version}" for _, version in OLD_RUNCS])
def test_an_old_runc_is_refused_for_two_gpus_where_limits_are_required(machine, docker, suite, version):
    configure(machine, vram_limit="required", low_level_runtime=f"/srv/runcs/{suite}/runc")

    said = docker.run(f"-e AMD_VISIBLE_DEVICES=0,1 -e AMD_VRAM=1GiB {IMAGE} true")

    assert f"AMD_VRAM=1GiB cannot be enforced: runc {version} {AT_ONCE}" in said


def test_twenty_containers_hold_their_limits_together(machine, docker):
    for number in range(20):
        docker.start(f"small-{number}", f"{GPU_0} -e AMD_VRAM=2GiB")
        assert docker.allocate(f"small-{number}", FIRST, "2G", "1G") == ["2G allocated", FULL.replace("4K", "1G")]

    assert f"{REGIONS[0]} {40 * 2**30}\n" in machine.run(f"cat {CGROUPS}/dmem.current")


def test_a_gpu_without_a_region_has_no_limit_and_the_log_says_so(machine, docker):
    load_regions(machine, ADDRESSES[0])

    docker.start("second", "-e AMD_VISIBLE_DEVICES=0,1 -e AMD_VRAM=1GiB")

    assert limits(docker, "second") == {REGIONS[0]: str(2**30)}
    assert "AMD_VRAM=1GiB is not enforced: the kernel has no memory region of GPU 1" in last_logged(machine)


def test_a_gpu_without_a_region_is_refused_where_limits_are_required(machine, docker):
    load_regions(machine, ADDRESSES[0])
    configure(machine, vram_limit="required")

    said = docker.run(f"-e AMD_VISIBLE_DEVICES=1 -e AMD_VRAM=1GiB {IMAGE} true")

    assert "AMD_VRAM=1GiB cannot be enforced: the kernel has no memory region of GPU 1" in said


@pytest.fixture
def without_controller(machine):
    """Let the runtime see the cgroups of a kernel without dmem."""
    machine.run(f"mkdir -p /srv/older && echo cpu memory pids >/srv/older/{CONTROLLERS}")
    machine.run(f"mount --bind /srv/older {SIMULATED_HOST}{CGROUPS}")
    yield
    machine.run(f"umount {SIMULATED_HOST}{CGROUPS}")


def test_without_the_controller_a_container_starts_without_a_limit_and_the_log_says_so(
    machine, docker, without_controller
):
    said = docker.run(f"{GPU_0} -e AMD_VRAM=1GiB {IMAGE} sh -c 'allocate {FIRST} 2G; echo $AMD_VRAM_LIMIT_MB'")

    assert said == "2G allocated\n1024\n"
    assert f"AMD_VRAM=1GiB is not enforced: {NO_CONTROLLER}" in last_logged(machine)


def test_without_the_controller_a_limit_is_refused_where_limits_are_required(machine, docker, without_controller):
    configure(machine, vram_limit="required")

    said = docker.run(f"{GPU_0} -e AMD_VRAM=1GiB {IMAGE} true")

    assert f"AMD_VRAM=1GiB cannot be enforced: {NO_CONTROLLER}" in said


def test_where_limits_are_required_a_container_without_one_is_refused(machine, docker):
    configure(machine, vram_limit="required")

    said = docker.run(f"{GPU_0} {IMAGE} true")

    assert 'vram-limit is "required", and the container does not say how much memory of GPU 0 it needs' in said


def test_limits_that_are_switched_off_are_not_set_and_the_log_says_so(machine, docker):
    configure(machine, vram_limit="off")

    said = docker.run(f"{GPU_0} -e AMD_VRAM=1GiB {IMAGE} allocate {FIRST} 2G")

    assert said == "2G allocated\n"
    assert "AMD_VRAM is ignored because vram-limit is" in last_logged(machine)


def test_the_cgroup_driver_without_systemd_sets_the_limit(machine, docker):
    configure(machine, vram_maximum=1024)
    command = ["allocate", FIRST, "1G", "4K"]

    said = run_bundle(machine, "runc", "0", command, host=SIMULATED_HOST)

    assert said.splitlines() == ["1G allocated", FULL]
