"""GPU models, such as MI300X, for labels, resource kinds and CDI names.

The table has compute GPUs by their PCI device ids. One id of a graphics card stands for several products, so those go
by their compilation target.
"""

from __future__ import annotations

from amdgpu_discovery.tables import read_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.gpu import Gpu


def known_models() -> frozenset[str]:
    """Return the models of the table."""
    return frozenset(read_table("gpu-models")["models"].values())


def model_of(gpu: Gpu) -> str:
    """Return the model of a GPU (MI210), or its compilation target where the model is unknown (GFX1100)."""
    models: dict[str, str] = read_table("gpu-models")["models"]
    return models.get(f"0x{gpu.device_id:04x}") or gpu.gfx_target.upper() or f"DEVICE_{gpu.device_id:04X}"
