"""Limits on the memory of GPUs under a real kernel with the dmem cgroup, set by crun where systemd makes the cgroups.

Each test begins as after a boot: there is no slice of containers yet, and no cgroup passes the controller on.
"""

from __future__ import annotations

import pytest

from kernel.conftest import build_two_gpus
from kernel.containers import FIRST, SECOND, SIMULATED_HOST
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
from kernel.engines import IMAGE, NO_NETWORK, PODMANS_RUNTIME, prepare_podman, start_docker
from kernel.machine import Machine
from support.debs import META_PACKAGE

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

PASSED_ON = "cgroup.subtree_control"
FULL = "4K Cannot allocate memory"
GPU_0 = "-e AMD_VISIBLE_DEVICES=0"
WITHOUT_SYSTEMD = "crun sets a limit only where systemd makes the container's cgroup"
# Podman's overlays are impossible on the disk of the machine, and its kernel has no IP.
PREPARE = """
mkdir -p /var/lib/containers && mount -t tmpfs tmpfs /var/lib/containers
printf '[containers]\\ndefault_sysctls = []\\n' >/etc/containers/containers.conf
"""
# The slices are those of containers in these tests; system.slice is there from the boot on.
AS_AFTER_A_BOOT = f"""
systemctl stop machine.slice night.slice owned.slice
for cgroup in {CGROUPS}/system.slice {CGROUPS}; do echo -dmem >$cgroup/cgroup.subtree_control; done
ls {CGROUPS} | grep -E 'machine|night|owned'; cat {CGROUPS}/cgroup.subtree_control
"""


@pytest.fixture(scope="module")
def machine(files, tmp_path_factory):
    """Return a machine with the regions of two simulated GPUs, and root's Podman."""
    image, module = dmem_image()
    host = build_two_gpus(tmp_path_factory.mktemp("dmem") / "host")
    needed = {name: files[name] for name in ("debs", "rootfs.tar")}
    started = Machine(image, {**needed, "gpu_memory.ko": module, "host": host})
    try:
        started.run(f"{BIND_CGROUPS}\n{PREPARE}")
        started.run(f"dpkg --force-unsafe-io --install $(ls /srv/debs/*.deb | grep -v {META_PACKAGE})")
        prepare_podman(started)
        load_regions(started, *ADDRESSES)
        yield started
    finally:
        started.cut_power()


@pytest.fixture
def podman(machine):
    """Return a function that calls root's Podman, which lets systemd make cgroups by itself, with crun."""
    begin(machine)
    yield lambda words: machine.run(f"podman --runtime={PODMANS_RUNTIME} {words}", check=False)
    machine.run("podman rm --all --force --time 0")


@pytest.fixture(scope="module")
def dockerd(machine):
    """Return Docker of the release with our runtime, which lets systemd make cgroups by itself."""
    return Containers(machine, start_docker(machine, options=WITHOUT_INTERNET))


@pytest.fixture
def docker(machine, dockerd):
    """Return Docker, with crun."""
    begin(machine)
    yield dockerd
    dockerd.remove_all()


def begin(machine):
    """Begin as after a boot, with crun and no setting of limits."""
    configure(machine, low_level_runtime="crun")
    assert "dmem" not in machine.run(AS_AFTER_A_BOOT, check=False)
    assert machine.run(f"ls {CGROUPS} | grep -E 'machine|night|owned'", check=False) == ""


def run(words, command):
    return f"run --rm {NO_NETWORK} {GPU_0} {words} localhost/{IMAGE} {command}"


def start(name, words):
    return f"run --detach --name={name} {NO_NETWORK} {GPU_0} {words} localhost/{IMAGE} sleep 1000000"


def test_a_container_of_podman_is_stopped_at_its_limit_and_its_neighbour_is_not(machine, podman):
    podman(start("one", "-e AMD_VRAM=8GiB"))
    podman(start("free", ""))

    stopped = podman(f"exec one allocate {FIRST} 8G 4K")
    machine.run("systemctl daemon-reload")
    again = podman(f"exec one allocate {FIRST} 4K")

    assert stopped.splitlines() == ["8G allocated", FULL]
    assert again.splitlines() == [FULL]
    assert podman(f"exec free allocate {FIRST} 20G").splitlines() == ["20G allocated"]


def test_the_first_container_of_a_slice_that_systemd_has_not_made_yet_has_a_limit(machine, podman):
    said = podman(run("--cgroup-parent=night.slice -e AMD_VRAM=1GiB", f"allocate {FIRST} 1G 4K"))

    assert said.splitlines() == ["1G allocated", FULL]
    assert machine.run("systemctl is-active night.slice") == "active\n"


def test_a_restart_of_podmans_container_keeps_the_limit(machine, podman):
    podman(start("kept", "-e AMD_VRAM=1GiB"))

    podman("restart --time 0 kept")

    assert podman(f"exec kept allocate {FIRST} 1G 4K").splitlines() == ["1G allocated", FULL]


def test_a_privileged_container_of_podman_cannot_lift_its_limit(podman):
    lift = f"echo {REGIONS[0]} max >{CGROUPS}/dmem.max"

    said = podman(run("--privileged -e AMD_VRAM=1GiB", f"sh -c '({lift}) 2>&1; allocate {FIRST} 1G 4K'"))

    refused, *allocated = said.splitlines()
    assert refused.endswith("Operation not permitted")
    assert allocated == ["1G allocated", FULL]


@pytest.mark.parametrize("program", ["crun", "runc"])
def test_a_limit_that_a_user_of_podman_sets_is_replaced(machine, podman, program):
    configure(machine, low_level_runtime=program)
    own = f"--cgroup-conf='dmem.max={REGIONS[0]} 64G'"

    said = podman(run(f"{own} -e AMD_VRAM=1GiB", f"allocate {FIRST} 1G 4K"))

    assert said.splitlines() == ["1G allocated", FULL]


def test_two_gpus_of_a_container_have_a_limit_each(podman):
    both = f"run --rm {NO_NETWORK} -e AMD_VISIBLE_DEVICES=0,1 -e AMD_VRAM=1GiB localhost/{IMAGE}"

    said = podman(f"{both} sh -c 'allocate {FIRST} 1G 4K; allocate {SECOND} 1G 4K'")

    assert said.splitlines() == ["1G allocated", FULL] * 2


def test_where_limits_are_required_crun_sets_them(machine, podman):
    configure(machine, vram_limit="required", low_level_runtime="crun")

    said = podman(run("-e AMD_VRAM=1GiB", f"allocate {FIRST} 1G 4K"))

    assert said.splitlines() == ["1G allocated", FULL]


def test_a_container_without_systemds_cgroup_has_no_limit_and_the_log_says_so(machine, podman):
    said = podman(f"--cgroup-manager=cgroupfs {run('-e AMD_VRAM=1GiB', f'allocate {FIRST} 2G')}")

    assert said.splitlines()[-1] == "2G allocated"
    assert f"AMD_VRAM=1GiB is not enforced: {WITHOUT_SYSTEMD}" in machine.run(f"tail -n 5 {LOG}")


def test_such_a_container_is_refused_where_limits_are_required(machine, podman):
    configure(machine, vram_limit="required", low_level_runtime="crun")

    said = podman(f"--cgroup-manager=cgroupfs {run('-e AMD_VRAM=1GiB', 'true')}")

    assert f"AMD_VRAM=1GiB cannot be enforced: {WITHOUT_SYSTEMD}" in said


def test_a_slice_that_a_user_owns_is_refused_where_limits_are_required(machine, podman):
    configure(machine, vram_limit="required", low_level_runtime="crun")
    machine.run("systemd-run --slice=owned.slice --unit=in-owned sleep 1000000")
    machine.run(f"chown 1000 {CGROUPS}/owned.slice")

    said = podman(run("--cgroup-parent=owned.slice -e AMD_VRAM=1GiB", "true"))

    assert "and owned.slice belongs to a user, who could lift the limit" in said


def test_two_first_containers_of_a_slice_at_once_have_a_limit_each(machine, podman):
    """One of them may find the slices half made by the other."""
    command = run("--cgroup-parent=night-deep.slice -e AMD_VRAM=1GiB", f"allocate {FIRST} 1G 4K")
    called = f"podman --runtime={PODMANS_RUNTIME} {command}"

    said = machine.run(f"{called} >/tmp/one 2>&1 & {called} >/tmp/two 2>&1 & wait; cat /tmp/one /tmp/two")

    assert said.splitlines() == ["1G allocated", FULL] * 2


OWNED = f"{CGROUPS}/owned.slice"
BUSY = "crun does not enable the dmem cgroup, and owned.slice does not pass it on: it has processes of its own"
READ_ONLY = "crun does not enable the dmem cgroup, and the top cgroup cannot be opened: the file system is read-only"


@pytest.fixture
def busy_slice(machine, podman):
    """Let a process be in a slice itself, so that the kernel lets the slice pass on no controller of memory."""
    machine.run(f"mkdir {OWNED}\nsleep 1000000 >/dev/null 2>&1 &\necho $! | tee /tmp/sleeping >{OWNED}/cgroup.procs")
    yield "--cgroup-parent=owned.slice"
    machine.run("kill $(cat /tmp/sleeping); podman rm --all --force --time 0; systemctl stop owned.slice")
    machine.run(f"for i in $(seq 100); do rmdir {OWNED}; [ -e {OWNED} ] || exit 0; sleep 0.1; done; exit 1")


@pytest.fixture
def read_only_cgroups(machine, podman):
    """Let the runtime, and nothing else, see cgroups that it cannot change, as in a service with protected cgroups."""
    machine.run(f"mount -o remount,bind,ro {SIMULATED_HOST}{CGROUPS}")
    yield ""
    machine.run(f"mount -o remount,bind,rw {SIMULATED_HOST}{CGROUPS}")


def test_where_a_cgroup_cannot_pass_the_controller_on_there_is_no_limit_and_the_log_says_so(
    machine, podman, read_only_cgroups
):
    said = podman(run("-e AMD_VRAM=1GiB", f"allocate {FIRST} 2G"))

    assert said.splitlines() == ["2G allocated"]
    assert f"AMD_VRAM=1GiB is not enforced: {READ_ONLY}" in machine.run(f"tail -n 5 {LOG}")


def test_where_systemd_cannot_make_a_scope_either_the_log_says_why_there_would_be_no_limit(machine, podman, busy_slice):
    said = podman(run(f"{busy_slice} -e AMD_VRAM=1GiB", "true"))

    assert "error `creating` systemd unit" in said
    assert f"AMD_VRAM=1GiB is not enforced: {BUSY}" in machine.run(f"tail -n 5 {LOG}")


@pytest.mark.parametrize(("cgroups", "why"), [("busy_slice", BUSY), ("read_only_cgroups", READ_ONLY)])
def test_where_limits_are_required_such_a_cgroup_is_named_and_no_container_is_left(
    machine, podman, request, cgroups, why
):
    configure(machine, vram_limit="required", low_level_runtime="crun")
    parent = request.getfixturevalue(cgroups)

    said = podman(run(f"{parent} -e AMD_VRAM=1GiB", "true"))

    assert f"AMD_VRAM=1GiB cannot be enforced: {why}" in said
    assert podman("ps --all --quiet") == ""
    assert machine.run(f"find {CGROUPS} -name 'libpod*'") == ""


def test_with_runc_a_user_who_owns_the_slice_above_can_take_the_controller_away(machine, podman):
    """The page says so."""
    configure(machine, low_level_runtime="runc")
    machine.run(f"systemd-run --slice=owned.slice --unit=in-owned sleep 1000000 && chown 1000 {OWNED}/{PASSED_ON}")
    podman(start("one", "--cgroup-parent=owned.slice -e AMD_VRAM=1GiB"))

    before = podman(f"exec one allocate {FIRST} 1G 4K")
    machine.run(f"setpriv --reuid=1000 --clear-groups sh -c 'echo -dmem >{OWNED}/{PASSED_ON}'")
    after = podman(f"exec one allocate {FIRST} 2G")

    assert (before.splitlines(), after.splitlines()) == (["1G allocated", FULL], ["2G allocated"])


def test_a_container_of_docker_is_stopped_at_its_limit_and_its_neighbour_is_not(machine, docker):
    docker.start("one", f"{GPU_0} -e AMD_VRAM=8GiB")
    docker.start("free", GPU_0)

    stopped = docker.allocate("one", FIRST, "8G", "4K")
    machine.run("systemctl daemon-reload")
    again = docker.allocate("one", FIRST, "4K")

    assert stopped == ["8G allocated", FULL]
    assert again == [FULL]
    assert docker.allocate("free", FIRST, "20G") == ["20G allocated"]


def test_a_restart_of_dockers_container_in_a_new_slice_keeps_the_limit(docker):
    docker.start("kept", f"{GPU_0} --cgroup-parent=night.slice -e AMD_VRAM=1GiB")
    before = docker.allocate("kept", FIRST, "1G", "4K")

    docker.do("restart -t 0 kept")

    assert before == ["1G allocated", FULL]
    assert docker.allocate("kept", FIRST, "1G", "4K") == ["1G allocated", FULL]
