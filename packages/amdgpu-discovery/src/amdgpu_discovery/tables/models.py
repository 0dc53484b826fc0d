"""GPU models, such as MI300X, for labels, resource kinds and CDI names; and the product names of GPUs.

The table has compute GPUs by their PCI device ids. One id of a graphics card stands for several products with different
revisions, so graphics cards are called by their compilation target. Product names, such as AMD Instinct MI210, are for
people, never for requests.
"""

from __future__ import annotations

from amdgpu_discovery.tables import read_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

PCI_DEVICES = "/sys/bus/pci/devices"
# libdrm's list, from AMD's driver packages and from distributions (libdrm/data/amdgpu.ids).
AMDGPU_IDS = ("/opt/amdgpu/share/libdrm/amdgpu.ids", "/usr/share/libdrm/amdgpu.ids")
VENDOR_PREFIX = "AMD "
# The property that udev's builtin hwdb adds to a device, from hwdb.d/20-pci-vendor-model.hwdb.
HWDB_MODEL = "ID_MODEL_FROM_DATABASE"


def known_models() -> frozenset[str]:
    """Return the models of the table."""
    return frozenset(read_table("gpu-models")["models"].values())


def model_of(gpu: Gpu) -> str:
    """Return the model of a GPU (MI210), else its compilation target (GFX1100), else its device id (DEVICE_740F)."""
    return _model_in_table(gpu) or gpu.gfx_target.upper() or f"DEVICE_{gpu.device_id:04X}"


def find_product_names(host: Host, gpus: Iterable[Gpu]) -> dict[int, str]:
    """Return the product names of GPUs by number; "" if unknown.

    The sources, in this order: the board itself (its FRU, which the driver shows), libdrm's list, udev's hardware
    database, and the table of compute GPUs.
    """
    listed = _read_amdgpu_ids(host)
    hwdb = _Hwdb(is_there=host.is_this_machine)
    return {gpu.number: _find_product_name(host, gpu, listed, hwdb) for gpu in gpus}


def short_name(model: str, product: str) -> str:
    """Return the name of a GPU in lists: MI210, or the product of a graphics card without the maker."""
    is_compute = product.endswith(model)
    return model if is_compute or not product else product.removeprefix(VENDOR_PREFIX)


def parse_amdgpu_ids(text: str) -> dict[tuple[int, int], str]:
    """Read libdrm's list: the name of each device id and revision, written `740F,	02,	AMD Instinct MI210`."""
    names = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", 2)]
        # The line with the version of the list has only one field.
        if len(fields) == 3 and not line.startswith("#") and _is_hexadecimal(fields[0]) and _is_hexadecimal(fields[1]):
            names[int(fields[0], 16), int(fields[1], 16)] = fields[2]
    return names


def product_in_hwdb(model: str) -> str:
    """Return the product that udev's database puts after the chip: `Aldebaran/MI200 [Instinct MI210]`."""
    inside = model.partition("[")[2].partition("]")[0] or model
    return f"{VENDOR_PREFIX}{inside.removeprefix(VENDOR_PREFIX)}" if inside else ""


class _Hwdb:
    """udev's database, opened for the first GPU that needs it: each opening starts `ldconfig` to find libudev."""

    def __init__(self, *, is_there: bool) -> None:
        self._context: Any = None
        self._is_there = is_there

    def model_of(self, directory: str) -> str:
        """Return udev's model of a device of this machine, "" without udev or pyudev."""
        if not self._is_there:
            return ""
        try:
            import pyudev

            self._context = self._context or pyudev.Context()
        # pyudev raises it also if there is no libudev.
        except ImportError:
            self._is_there = False
            return ""
        try:
            model: str = pyudev.Devices.from_path(self._context, directory).properties.get(HWDB_MODEL, "")
        except (pyudev.DeviceNotFoundError, OSError, ValueError):
            return ""
        return model


def _find_product_name(host: Host, gpu: Gpu, listed: dict[tuple[int, int], str], hwdb: _Hwdb) -> str:
    directory = f"{PCI_DEVICES}/{gpu.pci_address}"
    name, revision = host.read_attributes([f"{directory}/product_name", f"{directory}/revision"])
    return (
        name
        or (listed.get((gpu.device_id, int(revision, 16)), "") if _is_hexadecimal(revision.removeprefix("0x")) else "")
        or product_in_hwdb(hwdb.model_of(directory))
        or _name_in_table(gpu)
    )


def _read_amdgpu_ids(host: Host) -> dict[tuple[int, int], str]:
    # The first list that exists is the newest.
    texts = (host.read_attribute(path) for path in AMDGPU_IDS)
    return parse_amdgpu_ids(next((text for text in texts if text), ""))


def _name_in_table(gpu: Gpu) -> str:
    model = _model_in_table(gpu)
    return f"{VENDOR_PREFIX}Instinct {model}" if model else ""


def _model_in_table(gpu: Gpu) -> str:
    models: dict[str, str] = read_table("gpu-models")["models"]
    return models.get(f"0x{gpu.device_id:04x}", "")


def _is_hexadecimal(text: str) -> bool:
    return 0 < len(text) <= 4 and not text.strip("0123456789abcdefABCDEF")
