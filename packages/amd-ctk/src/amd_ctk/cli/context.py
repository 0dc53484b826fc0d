"""What every command is given."""

from __future__ import annotations

import typer

from amdgpu_discovery.host import Host


def host_of(context: typer.Context) -> Host:
    """Return the host this command serves, as the root command chose it."""
    host: Host = context.find_root().obj
    return host
