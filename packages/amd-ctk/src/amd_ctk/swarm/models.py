"""GPU models, such as MI300X, for labels and resource kinds."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.gpu import Gpu

# PCI device ids of compute GPUs, as the PCI ID repository (pci-ids.ucw.cz) names them. One id of a graphics card
# stands for several products, so those go by their compilation target.
MODEL_BY_DEVICE_ID = {
    0x66A1: "MI50",
    0x738C: "MI100",
    0x7408: "MI250X",
    0x740C: "MI250X",
    0x740F: "MI210",
    0x7410: "MI210",
    0x74A0: "MI300A",
    0x74A1: "MI300X",
    0x74A2: "MI308X",
    0x74A5: "MI325X",
    0x74A8: "MI308X",
    0x74A9: "MI300X",
    0x74B5: "MI300X",
    0x74B6: "MI308X",
    0x74B9: "MI325X",
    0x75A0: "MI350X",
    0x75A3: "MI355X",
    0x75B0: "MI350X",
    0x75B3: "MI355X",
}


def model_of(gpu: Gpu) -> str:
    """Return the model of a GPU (MI210), or its compilation target where the model is unknown (GFX1100)."""
    return MODEL_BY_DEVICE_ID.get(gpu.device_id) or gpu.gfx_target.upper() or f"DEVICE_{gpu.device_id:04X}"
