"""Hand over GPUs; if only their holders may open GPUs, first put the job in a scope that hides all others.

ROCm skips a GPU that the device filter forbids (EPERM), but fails completely at one that an access control list forbids
(EACCES). The kernel checks a node's list first: it keeps users out, and the filter makes KFD hide the rest.
"""

from __future__ import annotations

import os
import socket
from functools import partial

from amd_gpu_sharing.broker.jobs.child import Children
from amd_gpu_sharing.broker.jobs.job_processes import scope_of
from amd_gpu_sharing.broker.jobs.journal import Journal
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.protocol import GRANTED, Answer, format_answer, refusal
from amd_gpu_sharing.node_access.scope import allowed_devices, read_devices, start_scope
from amd_gpu_sharing.node_access.users import NodeUsers
from amd_gpu_tracker.book.job_ids import name_of
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus

# Longer than systemd's time limit.
CHILD_SECONDS = 60
SEND_SECONDS = 10.0
# Slurm ends the processes of its cgroup, and has its own device filter there.
SLURM = "slurm"


class NoScope(ToolkitError):
    """A job without a scope, in which ROCm would fail at the GPUs that it may not open."""


class Scopes:
    """Moves jobs to their scopes."""

    def __init__(self, host: Host, node_users: NodeUsers, log: Journal, children: Children) -> None:
        self._host = host
        self._node_users = node_users
        self._log = log
        self._children = children

    def hand_over(self, client: Connection, job: str, grant: Answer) -> Answer | None:
        """Return the answer to send to the client now; None if a child sends it after moving the job to a scope."""
        # A reservation has no process yet.
        if grant.kind != GRANTED or not self._is_needed(client):
            return grant
        descriptor, unsent = client.pass_on()
        act = partial(self._move_and_answer, client, job, grant, descriptor, unsent)
        self._children.start(act, seconds=CHILD_SECONDS, keep=(descriptor,))
        return None

    def _is_needed(self, client: Connection) -> bool:
        uid, pid = client.peer.uid, client.peer.process.pid
        return self._node_users.is_reserved and uid != 0 and self._host.is_this_machine and not _is_in_slurm(pid)

    def _move_and_answer(self, client: Connection, job: str, grant: Answer, descriptor: int, unsent: bytes) -> None:
        process, uid = client.peer.process, client.peer.uid
        gpus = [gpu for gpu in locate_gpus(self._host) if gpu.number in grant.numbers]
        failed = start_scope(
            scope_of(job, process),
            process.pid,
            parent=f"user-{uid}.slice",
            allowed=allowed_devices(gpus, read_devices(self._host)),
        )
        if failed:
            self._log("refused", f"{job}: no scope could be started: {failed}", job=name_of(job), user=uid)
            grant = refusal(NoScope(f"systemd started no scope: {failed}", hint="ask the administrator"))
        with socket.socket(fileno=os.dup(descriptor)) as connected:
            connected.settimeout(SEND_SECONDS)
            connected.sendall(unsent + format_answer(grant))


def _is_in_slurm(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return SLURM in file.read()
    except OSError:
        return False
