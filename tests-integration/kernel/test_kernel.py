"""A real kernel, its amdgpu driver, cgroup version 2 alone, and nodes that open; see docs/maintain/test-results.md."""

from __future__ import annotations

import json

import pytest

from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND, run_bundle
from kernel.engines import NO_NETWORK, PODMANS_RUNTIME

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

LOW_LEVEL = pytest.mark.parametrize("low_level", ["runc", "crun"])
NO_GPU = "this host has no AMD GPU that can compute ('amd-ctk gpu list' shows them)"


def test_the_driver_and_both_render_nodes_are_real(machine, kfd):
    said = machine.run(
        "stat -fc %T /sys/fs/cgroup; ls /sys/module/amdgpu/drivers; cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id"
    )
    opened = machine.run(f"sh /srv/rootfs/bin/open-nodes /dev/kfd {FIRST} {SECOND}")

    assert said == "cgroup2fs\npci:amdgpu\n0\n"
    assert opened.splitlines() == [kfd, f"{FIRST} opens", f"{SECOND} opens"]


def test_a_driver_without_gpus_has_none_for_every_program(machine):
    refused = f"AMD_VISIBLE_DEVICES=all: {NO_GPU}"

    assert machine.run("amd-ctk gpu list") == "Found 0 AMD GPU devices\n"
    assert machine.ask("amd-ctk cdi generate") == (1, f"failed to generate CDI spec: {NO_GPU}\n")
    code, explained = machine.ask("amd-ctk explain -e AMD_VISIBLE_DEVICES=all")
    assert (code, explained.splitlines()[-1].strip()) == (4, refused)
    asking = "sed -i s/TERM=xterm/AMD_VISIBLE_DEVICES=all/ config.json"
    machine.run(f"mkdir -p /tmp/none && cd /tmp/none && rm -f config.json && runc spec && {asking}")
    code, said = machine.ask("amd-container-runtime run --bundle /tmp/none none")
    assert (code, said) == (4, f"amd-container-runtime: {refused}\n")


def test_doctor_finds_a_driver_without_gpus(machine):
    said = machine.run("amd-ctk doctor --only=driver,kfd,gpu-state")

    assert [line.split(None, 2) for line in said.splitlines()[:3]] == [
        ["driver", "ok", "amdgpu of the kernel is loaded"],
        ["kfd", "note", "amdgpu is loaded, but this host has no AMD GPU"],
        ["gpu-state", "ok", "the driver answers for every GPU"],
    ]


def test_open_nodes_of_other_drivers_are_no_use_of_a_gpu(machine):
    # A simulated host whose processes are those of the machine.
    machine.run("cp -a /srv/untracked /tmp/used && ln -s /proc /tmp/used/proc")

    said = machine.run(
        f"exec 8<{FIRST} 9<{SECOND}; readlink /proc/$$/fd/8 /proc/$$/fd/9;"
        " AMD_CTK_HOST_ROOT=/tmp/used amd-ctk status --usage --json 2>/dev/null"
    )

    first, second, document = said.split("\n", 2)
    usage = json.loads(document)
    assert (first, second) == (FIRST, SECOND)
    assert ([gpu["users"] for gpu in usage["gpus"]], usage["problems"]) == ([[], []], [])


@LOW_LEVEL
def test_a_container_opens_its_gpu_and_is_refused_every_other(machine, kfd, low_level):
    command = ["sh", "-c", f"ls /dev/dri; open-nodes /dev/kfd {FIRST}; open-numbers 226:128 226:129 226:130 226:1"]

    seen = run_bundle(machine, low_level, "0", command).splitlines()

    assert seen == [
        *("card0", "renderD128", kfd, f"{FIRST} opens", "226:128 opens"),
        *(f"{number} Operation not permitted" for number in ("226:129", "226:130", "226:1")),
    ]


@LOW_LEVEL
def test_a_user_opens_the_gpus_of_the_container(machine, low_level):
    seen = run_bundle(machine, low_level, "0-1", ["open-nodes", FIRST, SECOND], user=1000)

    assert seen == f"{FIRST} opens\n{SECOND} opens\n"


@LOW_LEVEL
def test_a_container_that_asks_for_none_opens_none(machine, low_level):
    seen = run_bundle(machine, low_level, "none", ["sh", "-c", f"open-nodes {FIRST}; open-numbers 226:128 226:129"])

    assert seen.splitlines()[1:] == ["226:128 Operation not permitted", "226:129 Operation not permitted"]
    assert seen.splitlines()[0].endswith(("No such file or directory", "nonexistent directory"))


@LOW_LEVEL
def test_the_kernels_answers_to_opening_are_in_doctors_table(machine, low_level):
    nodes = [
        {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128, "fileMode": 0o600, "uid": 0, "gid": 0},
        {"path": "/dev/dri/renderD129", "type": "c", "major": 226, "minor": 129, "fileMode": 0o666, "uid": 0, "gid": 0},
    ]
    allowed = [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 226, "minor": 128, "access": "rwm"},
    ]

    seen = run_bundle(
        machine, low_level, "", ["open-nodes", FIRST, SECOND], user=1000, devices=nodes, resources={"devices": allowed}
    )

    assert seen == f"{FIRST} Permission denied\n{SECOND} Operation not permitted\n"


def test_docker_gives_a_gpu_that_opens_and_no_other(docker):
    seen = docker(f"-e AMD_VISIBLE_DEVICES=1 busybox:local sh -c 'open-nodes {SECOND}; open-numbers 226:128'")

    assert seen == f"{SECOND} opens\n226:128 Operation not permitted\n"


def test_a_user_of_docker_opens_its_gpu(docker):
    assert docker(f"--user 1000 -e AMD_VISIBLE_DEVICES=0 busybox:local open-nodes {FIRST}") == f"{FIRST} opens\n"


def test_a_privileged_container_of_docker_opens_everything(docker):
    seen = docker(
        f"--privileged -e AMD_VISIBLE_DEVICES=0 busybox:local sh -c 'open-nodes {FIRST}; open-numbers 226:129'"
    )

    assert seen == f"{FIRST} opens\n226:129 opens\n"


def test_docker_says_why_a_gpu_is_refused(docker):
    said = docker("-e AMD_VISIBLE_DEVICES=7 busybox:local true")

    assert "AMD_VISIBLE_DEVICES=7: GPU 7 does not exist, this host has GPUs 0-1" in said


def test_podman_gives_a_gpu_that_opens_and_no_other(podman):
    seen = podman(
        f"--runtime {PODMANS_RUNTIME} -e AMD_VISIBLE_DEVICES=1 --cap-add=mknod localhost/busybox:local"
        f" sh -c 'open-nodes {SECOND}; open-numbers 226:128'"
    )

    assert seen.splitlines()[-2:] == [f"{SECOND} opens", "226:128 Operation not permitted"]


def test_cdi_with_the_trackers_hooks_gives_a_gpu_that_opens_and_no_other(machine, podman, cdi):
    seen = podman(
        "--device amd.com/gpu=0 --cap-add=mknod localhost/busybox:local"
        f" sh -c 'open-nodes {FIRST}; open-numbers 226:129'"
    )

    assert seen.splitlines()[-2:] == [f"{FIRST} opens", "226:129 Operation not permitted"]


def test_the_hooks_refuse_a_gpu_that_is_exclusive_and_in_use(machine, podman, cdi):
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker 0 exclusive")
    podman("--detach --name holder --device amd.com/gpu=0 localhost/busybox:local sleep 3000")

    code, _ = machine.ask(f"podman run --rm {NO_NETWORK} --device amd.com/gpu=0 localhost/busybox:local true")
    machine.run("podman kill holder", check=False)

    # crun of Debian 12 drops what a hook says.
    refusals = machine.run(f"{ON_SIMULATED_HOST} amd-ctk gpu-tracker refused")
    assert code == 126
    assert "GPUs [0] are exclusive and already in use\n" in refusals
    assert "(holder)\n" in refusals


def test_a_gpu_that_gets_and_loses_its_driver_refreshes_cdi(machine, cdi):
    service = "/etc/systemd/system/amd-cdi-refresh.service.d"
    machine.run(
        f"mkdir -p {service} /var/lib/amd-container-toolkit/cdi && touch /var/lib/amd-container-toolkit/cdi/one"
        f" && printf '[Service]\\nEnvironment={ON_SIMULATED_HOST}\\n' >{service}/host.conf && systemctl daemon-reload"
        " && modprobe pci-stub; echo pci-stub >/sys/bus/pci/devices/0000:00:03.0/driver_override"
    )
    refreshed = "for i in $(seq 120); do [ -e /srv/host/etc/cdi/amd.json ] && exit; sleep 1; done; exit 1"

    machine.run("rm /srv/host/etc/cdi/amd.json; echo 0000:00:03.0 >/sys/bus/pci/drivers_probe")
    machine.run(refreshed)
    machine.run("rm /srv/host/etc/cdi/amd.json; echo 0000:00:03.0 >/sys/bus/pci/drivers/pci-stub/unbind")
    machine.run(refreshed)
