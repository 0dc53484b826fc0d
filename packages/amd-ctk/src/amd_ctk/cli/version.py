"""amd-ctk version."""

from __future__ import annotations

from amd_ctk.build import print_build, read_build
from amdgpu_discovery.command_line.context import PrintJson
from amdgpu_discovery.command_line.plain_help import examples


@examples("amd-ctk version", "amd-ctk version --json")
def version(as_json: PrintJson = False) -> None:
    """Show the version."""
    import json

    if as_json:
        print(json.dumps(read_build()))
    else:
        print_build()
