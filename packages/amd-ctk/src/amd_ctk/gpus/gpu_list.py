"""Print the list of `amd-ctk gpu list`: the original toolkit's table, a wider one on terminals, or JSON."""

from __future__ import annotations

import sys

from amd_ctk.gpus.listing import count_gpus, find_gpu_states, find_listed_gpus
from amdgpu_discovery.choices.unknown_gpus import describe_hidden
from amdgpu_discovery.command_line.listing import to_json
from amdgpu_discovery.command_line.standard_output import is_terminal
from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.driver.other_drivers import find_foreign_gpus
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.numbering import hidden_numbers
from amdgpu_discovery.tables.models import model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker import GpuState
    from amdgpu_discovery.gpu import Gpu, UnnumberedGpu
    from amdgpu_discovery.host import Host

RULE = "-" * 75
# Scripts rely on these columns of the original toolkit, padding included.
ROW = "{:<10}{:<25}{:<40}"


def print_gpu_list(host: Host, *, wide: bool = False, no_trunc: bool = False, as_json: bool = False) -> None:
    """Print the GPUs of a host. Print to stderr which GPUs are hidden from this process or have no number."""
    try:
        gpus = find_listed_gpus(host)
    except DriverUnavailable as error:
        if foreign := [gpu for gpu in find_foreign_gpus(host) if gpu.driver]:
            raise DriverUnavailable(error.message, hint="; ".join(gpu.words for gpu in foreign)) from error
        raise
    unnumbered = find_unnumbered_gpus(host)
    if as_json:
        from amdgpu_discovery.tables.models import find_product_names

        states, lost = find_gpu_states(host)
        print(format_json(gpus, unnumbered, find_product_names(host, gpus), states, lost), flush=True)
        return
    notes = _print_table(host, gpus, wide=wide, no_trunc=no_trunc)
    if hidden := hidden_numbers(gpus):
        notes.append(describe_hidden(hidden))
    notes += [f"The GPU at {gpu.pci_address} has no number because {gpu.reason}" for gpu in unnumbered]
    notes += [f"Not listed: {gpu.words}" for gpu in find_foreign_gpus(host)]
    for note in notes:
        print(note, file=sys.stderr)


def format_json(
    gpus: list[Gpu],
    unnumbered: list[UnnumberedGpu],
    products: dict[int, str],
    states: dict[int, GpuState],
    lost: list[GpuState],
) -> str:
    """Return {"gpus": [...], "hidden": [...], "unnumbered": [...], "lost": [...]}; `hidden` lists GPU numbers.

    Ids are strings, because JSON readers lose digits of 64-bit integers. They are null if the hardware has none.
    """
    return to_json(
        {
            "gpus": [_gpu_fields(gpu, products[gpu.number], states.get(gpu.number)) for gpu in gpus],
            "hidden": hidden_numbers(gpus),
            "unnumbered": [
                {**gpu.as_dict(), "pci_address": str(gpu.pci_address), "device_id": _format_id(gpu.device_id, digits=4)}
                for gpu in unnumbered
            ],
            "lost": [_lost_fields(gpu) for gpu in lost],
        }
    )


def _print_table(host: Host, gpus: list[Gpu], *, wide: bool, no_trunc: bool) -> list[str]:
    """Print the original toolkit's table; with --wide or on a terminal, a wider one. Return notes for stderr."""
    if not wide and not is_terminal():
        rows = [ROW.format(gpu.number, gpu.uuid, gpu.render_path) for gpu in gpus]
        table = [RULE, ROW.format("GPU Id", "UUID", "DRM Devices"), RULE, *rows] if gpus else []
        print("\n".join([count_gpus(gpus), *table]), flush=True)
        return []
    from amd_ctk.gpus.gpu_table import print_gpus

    return print_gpus(host, gpus, wide=wide, no_trunc=no_trunc)


def _gpu_fields(gpu: Gpu, product: str, state: GpuState | None) -> dict[str, object]:
    fields = gpu.as_dict()
    del fields["render_minor"], fields["card_minor"], fields["host_total"]
    return {
        **fields,
        "model": model_of(gpu),
        "product_name": product or None,
        "uuid": gpu.uuid if gpu.unique_id else None,
        "pci_address": str(gpu.pci_address),
        "kfd_unique_id": _format_id(gpu.kfd_unique_id),
        "pci_unique_id": _format_id(gpu.pci_unique_id),
        "gpu_id": gpu.gpu_id or None,
        "device_id": _format_id(gpu.device_id, digits=4),
        "xgmi_hive": _format_id(gpu.xgmi_hive),
        "render_node": gpu.render_node.as_dict(),
        "card_node": gpu.card_node.as_dict() if gpu.card_node else None,
        "state": state.state if state else None,
        "state_reason": state.reason or None if state else None,
    }


def _lost_fields(gpu: GpuState) -> dict[str, object]:
    return {
        "number": gpu.number,
        "uuid": None if gpu.uuid == "N/A" else gpu.uuid,
        "pci_address": gpu.pci_address,
        "since": gpu.since,
        "state_reason": gpu.reason,
    }


def _format_id(number: int | None, *, digits: int = 1) -> str | None:
    return f"0x{number:0{digits}x}" if number else None
