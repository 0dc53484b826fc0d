"""List the GPUs of a host as the CDI devices that `amd-ctk cdi generate` would define."""

from __future__ import annotations

import sys

from amd_ctk.gpus.listing import count_gpus, find_listed_gpus
from amd_device_spec import cdi as cdi_names
from amd_gpu_tracker import may_be_tracking
from amdgpu_discovery.command_line.listing import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host


def print_list(host: Host, *, as_json: bool = False) -> None:
    """Print the GPUs of a host as CDI devices."""
    gpus = find_listed_gpus(host)
    withheld = {}
    if may_be_tracking(host):
        from amd_gpu_tracker import Tracker

        tracker = Tracker(host)
        gpus = tracker.gpus.number(gpus)
        withheld = tracker.gpus.withheld(gpus)
    print(format_json(host, gpus, withheld) if as_json else format_list(host, gpus), flush=True)
    for sentence in () if as_json else withheld.values():
        print(sentence, file=sys.stderr)


def format_list(host: Host, gpus: list[Gpu]) -> str:
    """Format the GPUs as CDI devices with their nodes."""
    lines = [count_gpus(gpus)]
    if gpus:
        lines.append(f"{cdi_names.KIND}={cdi_names.ALL}")
    for gpu in gpus:
        lines += [f"{cdi_names.KIND}={gpu.number}", *(f"  {path}" for path in _drm_paths(host, gpu))]
    return "\n".join(lines)


def format_json(host: Host, gpus: list[Gpu], withheld: Mapping[int, str]) -> str:
    """Format every device name of a spec as JSON; `nodes` are its device nodes except /dev/kfd.

    `withheld` has the reason for each GPU that is refused, by number.
    """
    named = cdi_names.names_of(gpus, cdi_names.ALL_NAMES) if gpus else {}
    devices = [
        {
            "name": f"{cdi_names.KIND}={name}",
            "gpus": [gpu.number for gpu in behind],
            "nodes": [path for gpu in behind for path in _drm_paths(host, gpu)],
            "refused": [withheld[gpu.number] for gpu in behind if gpu.number in withheld],
        }
        for name, behind in named.items()
    ]
    return to_json({"devices": devices})


def _drm_paths(host: Host, gpu: Gpu) -> list[str]:
    card = gpu.card_path
    return [card, gpu.render_path] if card and host.stat(card) else [gpu.render_path]
