"""amd-ctk gpu: what GPUs there are."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from amd_ctk.cli.context import host_of
from amd_ctk.cli.group import command_group
from amd_ctk.listing import count_gpus, find_listed_gpus
from amdgpu_discovery.gpu import Gpu, UnnumberedGpu

app = command_group("GPU related commands")

RULE = "-" * 75


@app.command("list")
def list_gpus(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False
) -> None:
    """List AMD GPUs with their UUIDs."""
    from amdgpu_discovery.discover import find_unnumbered_gpus

    host = host_of(context)
    gpus = find_listed_gpus(host)
    unnumbered = find_unnumbered_gpus(host)
    print(format_json(gpus, unnumbered) if as_json else format_table(gpus))
    if unnumbered and not as_json:
        print(format_unnumbered(unnumbered), file=sys.stderr)


def format_table(gpus: list[Gpu]) -> str:
    """Return the table of numbered GPUs in the columns, padding included, that scripts know from the original."""
    rows = [format_row("GPU Id", "UUID", "DRM Devices")]
    rows += [format_row(str(gpu.number), format_uuid(gpu), gpu.render_path) for gpu in gpus]
    return "\n".join([count_gpus(gpus), *([RULE, rows[0], RULE, *rows[1:]] if gpus else [])])


def format_row(number: str, uuid: str, devices: str) -> str:
    """Return one row of the table."""
    return f"{number:<10}{uuid:<25}{devices:<40}"


def format_uuid(gpu: Gpu) -> str:
    """Return a GPU's unique id as the guide prints it."""
    return f"0x{gpu.unique_id:X}" if gpu.unique_id else "N/A"


def format_unnumbered(unnumbered: list[UnnumberedGpu]) -> str:
    """Return a line for each GPU that no container can ask for."""
    return "\n".join(
        f"The GPU at {gpu.pci_address} has no number because the kernel's compute driver (KFD) does not list it"
        for gpu in unnumbered
    )


def format_json(gpus: list[Gpu], unnumbered: list[UnnumberedGpu]) -> str:
    """Return {"gpus": [...], "unnumbered": [...]}; ids are strings, because JSON readers lose 64-bit integers."""
    import json

    return json.dumps(
        {"gpus": [_gpu_fields(gpu) for gpu in gpus], "unnumbered": [_unnumbered_fields(gpu) for gpu in unnumbered]},
        indent=2,
    )


def _gpu_fields(gpu: Gpu) -> dict[str, object]:
    fields = gpu.as_dict()
    del fields["render_minor"], fields["card_minor"]
    return {
        **fields,
        "uuid": format_uuid(gpu),
        "pci_address": str(gpu.pci_address),
        "kfd_unique_id": f"0x{gpu.kfd_unique_id:x}",
        "pci_unique_id": f"0x{gpu.pci_unique_id:x}",
        "device_id": f"0x{gpu.device_id:04x}",
        "xgmi_hive": f"0x{gpu.xgmi_hive:x}" if gpu.xgmi_hive else None,
        "render_node": gpu.render_node.as_dict(),
        "card_node": gpu.card_node.as_dict() if gpu.card_node else None,
    }


def _unnumbered_fields(gpu: UnnumberedGpu) -> dict[str, object]:
    return {**gpu.as_dict(), "pci_address": str(gpu.pci_address), "device_id": f"0x{gpu.device_id:04x}"}
