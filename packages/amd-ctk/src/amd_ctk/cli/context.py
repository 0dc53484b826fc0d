"""What every command is given."""

from __future__ import annotations

import sys

import typer

from amdgpu_discovery.host import SIMULATED_NOTICE, Host


def host_of(context: typer.Context) -> Host:
    """Return the host this command serves, as the root command chose it."""
    host: Host = context.find_root().obj
    return host


def host_to_change(context: typer.Context) -> Host:
    """Return the host that this command is about to change, and say where that is not this machine."""
    host = host_of(context)
    announce(host)
    return host


def announce(host: Host) -> None:
    """Say on standard error that a simulated host is changed, where it is one."""
    if not host.is_this_machine:
        print(SIMULATED_NOTICE.format(root=host.root), file=sys.stderr, flush=True)
