"""Engines in the virtual machine: Docker, Podman of root and of a user, with our runtime on the simulated host."""

from __future__ import annotations

from collections.abc import Callable

from kernel.containers import ON_SIMULATED_HOST, SIMULATED_HOST
from kernel.machine import Machine

# Runs a container, with these words after `run`; returns what it printed, also if it failed.
Run = Callable[[str], str]

IMAGE = "busybox:local"
ARCHIVE = "/srv/rootfs.tar"
NO_NETWORK = "--network=none"
# The images have no apparmor_parser, without which Docker loads no profile.
RUN_IN_DOCKER = f"run --rm {NO_NETWORK} --security-opt=apparmor=unconfined --runtime=amd"
# Podman gives its runtime few variables.
PODMANS_RUNTIME = "/usr/local/bin/amd-container-runtime-on-simulated-host"
WRAPPER = '#!/bin/sh\nexec env AMD_CTK_HOST_ROOT={host} amd-container-runtime "$@"\n'
# Whose files are below /home/user.
USER = "setpriv --reuid=1000 --regid=1000 --init-groups env HOME=/home/user USER=user XDG_RUNTIME_DIR=/run/user/1000"
ADD_USER = """
useradd --create-home --uid 1000 --groups render user
for file in subuid subgid; do grep -q ^user: /etc/$file || echo user:200000:65536 >>/etc/$file; done
mkdir -p /run/user && install -d -o user -g user -m 700 /run/user/1000
"""
# GPU Tracker keeps no leases of users on a simulated host, so theirs is one without it.
UNTRACKED_HOST = "/srv/untracked"
UNTRACKED_RUNTIME = "/usr/local/bin/amd-container-runtime-untracked"
UNTRACKED = "untracked.example/gpu"
DESCRIBE_UNTRACKED = f"""
export AMD_CTK_HOST_ROOT={UNTRACKED_HOST}
amd-ctk config set low-level-runtime $(command -v crun)
mkdir -p /etc/cdi && amd-ctk cdi generate && sed s,amd.com/gpu,{UNTRACKED}, $AMD_CTK_HOST_ROOT/etc/cdi/amd.json \
    >/etc/cdi/untracked.json
"""


def start_docker(machine: Machine, instance: str = "docker", options: str = "") -> str:
    """Start the release's dockerd, with our runtime configured, and return the words that call it."""
    docker = f"docker --host=unix:///run/{instance}.sock"
    own = (
        f"--host=unix:///run/{instance}.sock --data-root=/var/lib/{instance} --exec-root=/run/{instance}"
        f" --pidfile=/run/{instance}.pid --bridge=none --iptables=false --ip6tables=false {options}"
    )
    machine.run(f"amd-ctk runtime configure; {ON_SIMULATED_HOST} amd-ctk config set low-level-runtime runc")
    machine.run(f"{ON_SIMULATED_HOST} setsid dockerd {own} >/tmp/{instance}.log 2>&1 &")
    machine.run(f"for i in $(seq 600); do {docker} info >/dev/null 2>&1 && break; sleep 1; done")
    code, said = machine.ask(f"{docker} import {ARCHIVE} {IMAGE}")
    assert code == 0, said + machine.run(f"cat /tmp/{instance}.log")
    return docker


def prepare_podman(machine: Machine) -> None:
    """Give root's Podman the image, and a runtime that serves the simulated host."""
    _write_program(machine, PODMANS_RUNTIME, WRAPPER.format(host=SIMULATED_HOST))
    machine.run(f"podman import {ARCHIVE} localhost/{IMAGE}")


def add_user(machine: Machine) -> str:
    """Make a user in the group of render nodes and give its Podman the image; return the words that call it."""
    podman = f"cd /home/user && {USER} podman --cgroup-manager=cgroupfs"
    machine.run(ADD_USER)
    machine.run(DESCRIBE_UNTRACKED)
    _write_program(machine, UNTRACKED_RUNTIME, WRAPPER.format(host=UNTRACKED_HOST))
    machine.run(f"{podman} import {ARCHIVE} localhost/{IMAGE}")
    return podman


def _write_program(machine: Machine, path: str, text: str) -> None:
    machine.run(f"printf '%s' '{text}' >{path} && chmod 755 {path}")
