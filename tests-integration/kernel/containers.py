"""Containers of the virtual machine: what they run, and bundles for runc and crun."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kernel.machine import Machine

# The render nodes that virtio-gpu and vgem have.
FIRST, SECOND = "/dev/dri/renderD128", "/dev/dri/renderD129"
OPEN_NODES = """#!/bin/sh
# Print for each path what the kernel says to opening it for reading and writing.
for node; do
  said=$( (: <>"$node") 2>&1 ) && said=opens
  echo "$node ${said##*: }"
done
"""
OPEN_NUMBERS = """#!/bin/sh
# The same for nodes that are made here, by MAJOR:MINOR.
for number; do
  mknod -m 666 "/tmp/$number" c "${number%:*}" "${number#*:}" || continue
  echo "$number $(open-nodes "/tmp/$number" | cut -d ' ' -f 2-)"
done
"""
ALLOCATE = """#!/bin/sh
# Allocate memory of a GPU in pieces of these sizes; print what the kernel says to each. It keeps them.
exec 3<>"$1"
shift
for size; do
  said=$( (echo "$size" >&3) 2>&1 ) && said=allocated
  echo "$size ${said##*: }"
done
sleep 1000000 </dev/null >/dev/null 2>&1 &
"""
SCRIPTS = {"open-nodes": OPEN_NODES, "open-numbers": OPEN_NUMBERS, "allocate": ALLOCATE}
SIMULATED_HOST = "/srv/host"
ON_SIMULATED_HOST = f"AMD_CTK_HOST_ROOT={SIMULATED_HOST}"
# Its settings name now runc, now crun; those of the first name what engines run.
BUNDLES_HOST = "/srv/bundles"


def run_bundle(
    machine: Machine,
    low_level: str,
    request: str,
    command: Sequence[str],
    *,
    user: int = 0,
    host: str = BUNDLES_HOST,
    under: str = "",
    **linux: Any,
) -> str:
    """Run a command in a container that asks our runtime for GPUs, made by runc or crun; return what it printed.

    `under` is what limits the runtime and stands in front of it.
    """
    spec = json.loads(machine.run("cd /tmp && rm -f config.json && runc spec && cat config.json"))
    spec["root"] = {"path": "/srv/rootfs", "readonly": True}
    spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
    spec["process"] |= {"terminal": False, "args": list(command), "user": {"uid": user, "gid": user}}
    spec["process"]["env"].append(f"AMD_VISIBLE_DEVICES={request}")
    for capabilities in spec["process"]["capabilities"].values():
        capabilities.append("CAP_MKNOD")
    spec["linux"] |= {"cgroupsPath": "/kernel-test", **linux}
    machine.run(f"mkdir -p /tmp/bundle && cat >/tmp/bundle/config.json <<'END'\n{json.dumps(spec)}\nEND")
    on_host = f"env AMD_CTK_HOST_ROOT={host}"
    machine.run(f"{on_host} amd-ctk config set low-level-runtime $(command -v {low_level})")
    return machine.run(f"{under} {on_host} amd-container-runtime run --bundle /tmp/bundle c1", check=False)
