"""amd-ctk gpu-tracker: the commands of amd-gpu-tracker. They also update the host's CDI specs."""

from __future__ import annotations

import os
import sys
from shlex import quote
from typing import Annotated

import typer

from amd_ctk.companions import SHARING, is_installed, require
from amd_gpu_tracker.cli import CommandProgram, make_group
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.command_line.context import host_of
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host


def follow_switch(host: Host) -> None:
    """Update what depends on the tracker: its hooks in CDI specs, and the permissions of the GPUs' nodes."""
    from amd_ctk.cdi.specs import refresh_specs

    for refreshed in refresh_specs(host):
        if refreshed.error is not None:
            print(f"the CDI spec {refreshed.output} was not updated: {refreshed.error}", file=sys.stderr)
    if not is_installed(SHARING):
        return
    from amd_gpu_sharing import apply_access

    try:
        apply_access(host)
    except ToolkitError as error:
        print(f"the nodes of the GPUs were not closed: {error}", file=sys.stderr)


def find_hints(host: Host, *, is_drained: bool, reason: str) -> list[str]:
    """Return how to tell Docker Swarm and Slurm that a GPU is drained or back, if the host uses them."""
    from amd_ctk.swarm.node_settings import advertises_gpus
    from amd_device_spec.slurm.conf import GRES_CONF, find_conf

    hints = []
    if advertises_gpus(host, joined=True):
        plans = "so that Swarm plans with the current GPUs"
        hints.append(f"Run 'sudo amd-ctk swarm setup' again and restart Docker, {plans}")
    if find_conf(host, GRES_CONF):
        state = f"State=DRAIN Reason={quote(reason or 'GPU drained')}" if is_drained else "State=RESUME"
        node = os.uname().nodename.partition(".")[0]
        hints.append(f"Slurm can drain only whole nodes: scontrol update NodeName={node} {state}")
    return hints


class CtkProgram(CommandProgram):
    """amd-ctk, which knows the settings and the programs beside the tracker."""

    name = "amd-ctk gpu-tracker"

    def follow_switch(self) -> None:
        """Update what depends on whether GPUs are tracked."""
        follow_switch(self.host)

    def find_rules(self) -> ChoiceRules:
        """Return the settings of the host that concern choices."""
        # Only commands that choose GPUs need the settings.
        from amd_device_spec.settings import read_settings

        return read_settings(self.host).choice_rules()

    def find_hints(self, *, is_drained: bool, reason: str) -> list[str]:
        """Return how to tell Docker Swarm and Slurm that a GPU is drained or back, if the host uses them."""
        return find_hints(self.host, is_drained=is_drained, reason=reason)

    def find_givers(self) -> list[str]:
        """Return Docker Swarm if this node advertises GPUs to it."""
        from amd_ctk.swarm.node_settings import advertises_gpus

        return ["Docker Swarm"] if advertises_gpus(self.host) else []


app = make_group(CtkProgram)


@app.command("serve", hidden=True)
def serve(
    context: typer.Context,
    listen: Annotated[str, typer.Option(metavar="PATH", help="Make this socket, if systemd passes none.")] = "",
) -> None:
    """Give GPUs to the users who may have some; systemd starts this at the first request."""
    require(SHARING)
    from amd_gpu_sharing import serve as serve_people

    serve_people(host_of(context), listen)
