"""The host that a command works on."""

from __future__ import annotations

import sys

import typer

from amdgpu_discovery.host import SIMULATED_NOTICE, Host


def host_of(context: typer.Context) -> Host:
    """Return the host of this command, which the root command chose."""
    host: Host = context.find_root().obj
    return host


def host_to_change(context: typer.Context) -> Host:
    """Return the host that this command is about to change; announce a simulated one."""
    host = host_of(context)
    announce(host)
    return host


def announce(host: Host) -> None:
    """Print on standard error that a simulated host is changed, if it is one."""
    if not host.is_this_machine:
        print(SIMULATED_NOTICE.format(root=host.root), file=sys.stderr, flush=True)
