"""Check invariants of a machine in /proc and in files, and print each violation on a line.

It runs on the stand with the Python there. It shares no code with the toolkit, whose own answers prove nothing.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

PLACES = ("/run/amd-container-toolkit", "/etc/amd-container-toolkit", "/var/lib/amd-container-toolkit", "/etc/cdi")
# The render node of each GPU of the stand, by its number.
NODES = ("renderD130", "renderD131", "renderD129", "renderD128")


def find_holders() -> dict[str, set[str]]:
    """Return the users of each GPU found in processes: tokens of jobs and containers, or mount namespaces."""
    holders: dict[str, set[str]] = collections.defaultdict(set)
    own = os.readlink("/proc/1/ns/mnt")
    for process in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            variables = read_variables(process)
            token, mounts = variables.get("AMD_CTK_RESERVATION"), os.readlink(f"{process}/ns/mnt")
            if token and mounts == own:
                for number in variables["AMD_VISIBLE_DEVICES"].split(","):
                    holders[NODES[int(number)]].add(token)
            elif mounts != own and is_of_container(process):
                for path in glob.glob(f"{process}/root/dev/dri/renderD*"):
                    holders[os.path.basename(path)].add(token or mounts)
    return holders


def is_of_container(process: str) -> bool:
    """Services have their own mount namespace too, but the root of a container is another file system."""
    return not os.path.samestat(os.stat(f"{process}/root/"), os.stat("/"))


def read_variables(process: str) -> dict[str, str]:
    with open(f"{process}/environ", "rb") as file:
        return dict(word.split("=", 1) for word in file.read().decode(errors="replace").split("\0") if "=" in word)


def read_leases() -> Iterator[Any]:
    for path in glob.glob("/run/amd-container-toolkit/leases/*.json"):
        with open(path, encoding="utf-8") as file:
            yield json.load(file)


def find_start(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def is_alive(lease: Any) -> bool:
    if lease.get("until"):
        return True
    with contextlib.suppress(OSError, ValueError), open(lease.get("pid_file", ""), encoding="ascii") as file:
        return os.path.exists(f"/proc/{int(file.read())}")
    for process in (lease.get("init"), lease["creator"]):
        with contextlib.suppress(OSError, TypeError):
            if find_start(process["pid"]) == process["start"]:
                return True
    return False


def find_problems() -> Iterator[str]:
    leases = list(read_leases())
    owners: dict[str, set[str]] = collections.defaultdict(set)
    for lease in leases:
        for gpu in lease["gpus"]:
            owners[gpu].add(lease.get("token_digest") or lease.get("reservation_digest") or lease["container_id"])
        if not is_alive(lease):
            yield f"the lease {lease['container_id']} has no process"
    yield from (f"{gpu} has {len(found)} leases" for gpu, found in owners.items() if len(found) > 1)
    holders = find_holders()
    yield from (f"{gpu} has {len(found)} holders" for gpu, found in holders.items() if len(found) > 1)
    if len(holders) > len(owners):
        yield f"{len(holders)} GPUs are used, and {len(owners)} are in leases"
    for place in PLACES:
        yield from (f"{path} is left" for path in glob.glob(f"{place}/**/*.tmp", recursive=True))
    for node in glob.glob("/dev/dri/renderD*"):
        if stat.S_IMODE(os.stat(node).st_mode) != 0o660 or os.stat(node).st_uid:
            yield f"{node} is not what it was"


if __name__ == "__main__":
    print("\n".join(find_problems()))
