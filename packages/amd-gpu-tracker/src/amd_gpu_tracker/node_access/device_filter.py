"""What a job may open by the device filter of its scope: its GPUs, and whatever is no GPU."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

DEVICES = "/proc/devices"
GPU_CLASSES = ("drm", "kfd")
# Beside these, what every scope may open: /dev/null and the like, and terminals.
POLICY = "closed"


def read_devices(host: Host) -> str:
    """Return what the kernel's list of device classes says, "" for a simulated host, which has none."""
    try:
        return host.read(DEVICES).decode()
    except OSError:
        return ""


def allowed_devices(gpus: Iterable[GpuLocation], devices: str) -> list[tuple[str, str]]:
    """Return classes and nodes with what may be done with them, as systemd's DeviceAllow= has them.

    `devices` is what the kernel's /proc/devices says. Rootless engines open /dev/fuse and /dev/net/tun, debuggers and
    profilers others.
    """
    nodes = ["/dev/kfd", *(path for gpu in gpus for path in (gpu.render_path, gpu.card_path) if path)]
    return [*((name, "rwm") for name in _other_classes(devices)), *((node, "rw") for node in nodes)]


def _other_classes(devices: str) -> list[str]:
    """Return each class of devices but those of GPUs, as systemd names it."""
    characters = devices.partition("\nBlock devices:")[0].splitlines()[1:]
    names = dict.fromkeys(line.split()[-1] for line in characters if line.strip())
    # What begins with a slash is one device of a class that has a name, too, or that every unit may open.
    return [f"char-{name}" for name in names if name not in GPU_CLASSES and not name.startswith("/")] + ["block-*"]
