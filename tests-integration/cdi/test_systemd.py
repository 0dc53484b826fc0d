"""Services and containers of systemd, in a Debian that boots: DeviceAllow=, systemd-nspawn, and Podman's units."""

from __future__ import annotations

import os
import shutil
import stat

import pytest

from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from support.box import nodes_of
from support.debian_root import EXPERIMENTAL, booted_root, of
from support.debs import META_PACKAGE
from support.docker import IMAGE
from support.installed import require_root
from support.podman import BOOTED_SYSTEM_FILES
from support.seen import parse_seen
from support.system import System

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

KFD_NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
RUNTIME = "/usr/local/bin/amd-container-runtime"
# Podman gives its runtime the environment only when a container is created.
ON_SIMULATED_HOST = '#!/bin/sh\nAMD_CTK_HOST_ROOT=/run/shared/host exec /usr/bin/amd-container-runtime "$@"\n'
# GPU 3 of the host.
GPU_3 = ["/dev/dri/card1", "/dev/dri/renderD128", "/dev/kfd"]
OTHERS = ["/dev/dri/renderD129", "/dev/dri/renderD130", "/dev/dri/renderD131"]
# What a unit says that may use GPU 3 alone.
LIMIT = "DevicePolicy=closed\n" + "".join(f"DeviceAllow={node} rw\n" for node in GPU_3)
SERVICE = """\
[Service]
Type=oneshot
Environment=AMD_CTK_HOST_ROOT=/run/shared/host
StandardOutput=truncate:/run/said
StandardError=truncate:/run/complained
"""
FILES = {**BOOTED_SYSTEM_FILES, RUNTIME: ON_SIMULATED_HOST}


def hide_by_device_numbers(host, numbers):
    """Let the device cgroup decide who reads what KFD says of these GPUs."""
    for gpu in locate_gpus(host):
        if gpu.number in numbers:
            path = host.path(f"{KFD_NODES}/{gpu.kfd_node}/properties")
            os.unlink(path)
            os.mknod(path, 0o444 | stat.S_IFCHR, os.makedev(226, gpu.render_minor))


@pytest.fixture(scope="module", params=[pytest.param(suite, marks=of(suite)) for suite in ("trixie", EXPERIMENTAL)])
def system(request, tmp_path_factory, debs, generate, rootfs, image_archive):
    """Return a system with the nodes of four MI210, the toolkit, Podman, and a root file system for nspawn."""
    require_root()
    system = System(tmp_path_factory.mktemp("booted") / "system", booted_root(request.param))
    try:
        hide_by_device_numbers(build_host(system.shared / "host", "mi210-4"), {0, 1, 2})
        make_nodes(system, generate())
        make_machine_for_nspawn(system, rootfs)
        shutil.copy(image_archive, system.shared / "image.tar")
        install(system, debs)
        yield system
    finally:
        system.stop()


def make_machine_for_nspawn(system, rootfs):
    """Make a root file system that has what nspawn takes for an operating system."""
    root = system.shared / "machine"
    shutil.copytree(rootfs, root, symlinks=True)
    (root / "usr").mkdir()
    (root / "etc/os-release").write_text("ID=test\n")


def make_nodes(system, spec):
    """Make the nodes that a CDI spec names, and give the spec to engines."""
    system.write("/etc/cdi/amd.json", spec.decode())
    for node in nodes_of(spec):
        system.run("mkdir -p /dev/dri; mknod -m 660 {path} c {major} {minor}; chgrp {gid} {path}".format(**node))


def install(system, debs):
    """Install the toolkit, two images, and the scripts that look at nodes."""
    for deb in debs.glob("*.deb"):
        if not deb.name.startswith(META_PACKAGE):
            shutil.copy(deb, system.shared)
    system.run("dpkg --force-unsafe-io --install /run/shared/*.deb")
    for path, text in FILES.items():
        system.write(path, text)
    system.run(f"chmod 755 {RUNTIME}; mkdir /run/shared/seen")
    system.run("for name in try-nodes list-gpus; do cp /run/shared/machine/bin/$name /usr/local/bin; done")
    system.run(f"podman import --quiet /run/shared/image.tar {IMAGE}")
    system.run('podman import --quiet --change \'CMD ["sleep", "600"]\' /run/shared/image.tar pause:local')


def start_service(system, name, text):
    system.write(f"/etc/systemd/system/{name}.service", text)
    system.run(f"systemctl daemon-reload && systemctl start {name}.service")
    return system.run("cat /run/said")


def access_by_node(printed):
    return {node.path: node.access for node in parse_seen(printed)}


def sees_gpu_3_alone(printed):
    return access_by_node(printed) == dict.fromkeys(GPU_3, "opens")


def test_a_service_opens_the_nodes_that_deviceallow_names_and_no_others(system):
    said = start_service(system, "nodes", f"{SERVICE}{LIMIT}ExecStart=list-gpus\n")

    access = access_by_node(said)
    assert {path: access[path] for path in GPU_3} == dict.fromkeys(GPU_3, "opens")
    assert {path: access[path] for path in OTHERS} == dict.fromkeys(OTHERS, "refused-by-cgroup")


def test_a_service_that_deviceallow_limits_has_the_numbers_of_the_host(system):
    said = start_service(system, "numbers", f"{SERVICE}{LIMIT}ExecStart=amd-ctk gpu list\n")

    assert [line.split()[::2] for line in said.splitlines()[4:]] == [["3", "/dev/dri/renderD128"]]
    assert system.run("cat /run/complained") == "GPUs 0-2 are hidden from this process by its device cgroup\n"


JOB = "amd-ctk run --gpus=3 --name=train --unit --"
TRY_UNTIL = "n=0; until [ $((n += 1)) -gt 300 ] && exit 1;"


@pytest.fixture(scope="module")
def on_whole_host(system):
    """Return what stands before commands for a host of which nothing is hidden; its GPUs are exclusive."""
    built = build_host(system.shared / "whole", "mi210-4")
    os.makedirs(built.path("/proc"), exist_ok=True)
    shutil.copy("/proc/devices", built.path("/proc/devices"))
    on_host = "export AMD_CTK_HOST_ROOT=/run/shared/whole;"
    system.run(f"{on_host} amd-ctk gpu-tracker enable && amd-ctk gpu-tracker all exclusive")
    return on_host


def test_a_job_in_a_unit_opens_its_gpus_and_no_other(system, on_whole_host):
    said = system.run(f"{on_whole_host} {JOB} sh -c 'list-gpus; exit 7' 2>/run/complained; echo $? >/run/code")

    access = access_by_node(said)
    assert {path: access[path] for path in GPU_3} == dict.fromkeys(GPU_3, "opens")
    assert {path: access[path] for path in OTHERS} == dict.fromkeys(OTHERS, "refused-by-cgroup")
    assert system.run("cat /run/code") == "7\n"


# Of rootless engines inside.
OTHER_NODES = {"/dev/fuse": "10 229", "/dev/net/tun": "10 200"}


@pytest.mark.parametrize("node", OTHER_NODES)
def test_a_job_in_a_unit_opens_what_is_no_gpu(system, on_whole_host, node):
    system.run(f"mkdir -p /dev/net; [ -e {node} ] || mknod {node} c {OTHER_NODES[node]}")
    # The kernel may lack the driver, inside and outside.
    attempt = f"sh -c '(exec 3<>{node} && echo opened) 2>&1; true'"
    outside = system.run(attempt)

    assert system.run(f"{on_whole_host} {JOB} {attempt} 2>/dev/null") == outside
    assert "not permitted" not in outside


def test_a_job_in_a_unit_has_its_reservation_as_long_as_it_runs(system, on_whole_host):
    system.run(f"{on_whole_host} {JOB} sleep 600 >/dev/null 2>&1 & echo $! >/run/job")
    is_reserved = "amd-ctk gpu-tracker status | grep -q train"

    # The command has the process id with which amd-ctk reserved.
    system.run(f"{TRY_UNTIL} grep -qx sleep /proc/$(cat /run/job)/comm; do sleep 0.2; done")
    system.run(f"{on_whole_host} {is_reserved}")
    system.run("kill -9 $(cat /run/job)")

    system.run(f"{on_whole_host} {TRY_UNTIL} ! {is_reserved}; do sleep 0.2; done")


# 262 has a note about its future options.
NSPAWN = "SYSTEMD_LOG_LEVEL=warning systemd-nspawn --quiet --directory=/run/shared/machine --register=no"


def test_nspawn_opens_the_nodes_that_are_bound(system):
    """It lets the container open each node that `--bind` names, and needs no DeviceAllow= for that."""
    binds = " ".join(f"--bind={node}" for node in GPU_3)

    assert sees_gpu_3_alone(system.run(f"{NSPAWN} {binds} list-gpus"))


def test_nspawn_opens_of_a_directory_what_deviceallow_names(system):
    allowed = " ".join(f"--property='DeviceAllow={node} rw'" for node in GPU_3)

    access = access_by_node(system.run(f"{NSPAWN} --bind=/dev/kfd --bind=/dev/dri {allowed} list-gpus"))

    assert {path: access[path] for path in GPU_3} == dict.fromkeys(GPU_3, "opens")
    assert {path: access[path] for path in OTHERS} == dict.fromkeys(OTHERS, "refused-by-cgroup")


UNIT = f"""\
[Container]
Image={IMAGE}
Network=none
Volume=/run/shared/seen:/seen
"""


def start_container(system, name, of_the_container, of_the_service=""):
    """Start the service that Podman makes of a .container file, and return what its container saw."""
    command = f'Exec=sh -c "list-gpus >/seen/{name}"\n'
    service = f"[Service]\nType=oneshot\n{of_the_service}"
    system.write(f"/etc/containers/systemd/{name}.container", f"{UNIT}{of_the_container}{command}{service}")
    system.run(f"systemctl daemon-reload && systemctl start {name}.service")
    return system.run(f"cat /run/shared/seen/{name}")


def test_a_quadlet_has_the_cdi_device_that_it_adds(system):
    assert sees_gpu_3_alone(start_container(system, "device", "AddDevice=amd.com/gpu=3\n"))


def test_a_quadlet_that_deviceallow_limits_has_no_other_gpu(system):
    asks = f"GlobalArgs=--runtime={RUNTIME}\nEnvironment=AMD_VISIBLE_DEVICES=all\n"

    assert sees_gpu_3_alone(start_container(system, "limited", asks, LIMIT))


POD = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: training}}
spec:
  restartPolicy: Never
  containers:
    - name: main
      image: {IMAGE}
      command: [list-gpus]
      env: [{{name: AMD_VISIBLE_DEVICES, value: all}}]
"""
PODMAN = f"podman --runtime={RUNTIME}"
ASKING_FOR_ALL = f"--network=none --env=AMD_VISIBLE_DEVICES=all {IMAGE} list-gpus"
# Each asks for all GPUs.
CALLERS = {
    "podman run": f"{PODMAN} run --rm {ASKING_FOR_ALL}",
    "podman run, cgroups split": f"{PODMAN} run --rm --cgroups=split {ASKING_FOR_ALL}",
    "podman kube play": f"{PODMAN} kube play --network=none /root/pod.yaml >&2 && podman wait training-main >&2"
    " && podman logs training-main && podman pod rm --force --time=0 training >&2",
    "buildah run": f"buildah run --isolation=oci --runtime={RUNTIME} --network=none"
    f" --env=AMD_VISIBLE_DEVICES=all $(buildah from --quiet {IMAGE}) list-gpus",
}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_caller_that_a_device_cgroup_limits_gets_what_it_may_use_itself(system, caller):
    system.write("/root/pod.yaml", POD)

    assert sees_gpu_3_alone(call_limited(system, CALLERS[caller]))


def test_a_caller_that_a_device_cgroup_limits_is_refused_another_gpu(system):
    call_limited(system, f"{PODMAN} run --rm --network=none --env=AMD_VISIBLE_DEVICES=0 {IMAGE} true; true")

    assert "GPU 0 is not among the GPUs this process may use (3)" in system.run("cat /run/complained")


def call_limited(system, script):
    """Run a script in a unit that may use GPU 3 alone, and return what it printed."""
    system.write("/root/call", f"exec 2>/run/complained\n{script}\n")
    limits = " ".join(f"--property='{line}'" for line in LIMIT.splitlines())
    return system.run(f"systemd-run --quiet --wait --pipe --setenv=HOME=/root {limits} sh /root/call")


def test_a_quadlet_that_systemd_starts_again_has_its_gpu_again(system, on_whole_host):
    runtime = ON_SIMULATED_HOST.replace("/run/shared/host", "/run/shared/whole")
    system.write("/usr/local/bin/on-whole-host", runtime)
    system.run("chmod 755 /usr/local/bin/on-whole-host")
    container = "GlobalArgs=--runtime=/usr/local/bin/on-whole-host\nEnvironment=AMD_VISIBLE_DEVICES=3\nExec=sleep 600\n"
    service = "[Service]\nRestart=always\nRestartSec=2\n"
    system.write("/etc/containers/systemd/web.container", f"{UNIT}{container}{service}")
    system.run("systemctl daemon-reload && systemctl start web.service")
    system.run(f"{on_whole_host} amd-ctk run --gpus=3 --wait -- true >/dev/null 2>/run/waits & echo $! >/run/job")
    system.run(f"{TRY_UNTIL} grep -q waiting /run/waits; do sleep 0.2; done")
    restarts = "systemctl show --property=NRestarts --value web.service"

    for count in (1, 2, 3):
        system.run("kill -9 $(podman inspect --format={{.State.Pid}} systemd-web)")
        system.run(f"{TRY_UNTIL} [ $({restarts}) = {count} ] && systemctl is-active web.service; do sleep 0.2; done")
        system.run("[ -d /proc/$(cat /run/job) ]")

    system.run("systemctl stop web.service")
    system.run(f"{TRY_UNTIL} ! [ -d /proc/$(cat /run/job) ]; do sleep 0.2; done")
