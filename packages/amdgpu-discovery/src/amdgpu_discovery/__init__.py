"""Finds the AMD GPUs of a machine, and those that a request means.

    from amdgpu_discovery import Host, find_gpus, select_gpus

    gpus = find_gpus(Host())
    select_gpus(gpus, "0-2")

`Host()` is this machine; `build_host` of amdgpu-simulator makes a directory that stands in for one. The names on this
page stay the same from one version to the next. The modules behind them may change.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amdgpu_discovery.choices.selection import select_gpus as select_gpus
    from amdgpu_discovery.discover import find_gpus as find_gpus
    from amdgpu_discovery.discover import find_unnumbered_gpus as find_unnumbered_gpus
    from amdgpu_discovery.driver.device_nodes import find_device_nodes as find_device_nodes
    from amdgpu_discovery.errors import DeviceNodeError as DeviceNodeError
    from amdgpu_discovery.errors import DriverUnavailable as DriverUnavailable
    from amdgpu_discovery.errors import FileError as FileError
    from amdgpu_discovery.errors import GpusHidden as GpusHidden
    from amdgpu_discovery.errors import RequestError as RequestError
    from amdgpu_discovery.errors import ToolkitError as ToolkitError
    from amdgpu_discovery.gpu import DeviceNode as DeviceNode
    from amdgpu_discovery.gpu import DeviceNumber as DeviceNumber
    from amdgpu_discovery.gpu import Gpu as Gpu
    from amdgpu_discovery.gpu import GpuLocation as GpuLocation
    from amdgpu_discovery.gpu import PciAddress as PciAddress
    from amdgpu_discovery.gpu import UnnumberedGpu as UnnumberedGpu
    from amdgpu_discovery.host import Host as Host
    from amdgpu_discovery.numbering import locate_gpus as locate_gpus

_MODULE_BY_NAME = {
    "Host": "host",
    "find_gpus": "discover",
    "find_unnumbered_gpus": "discover",
    "locate_gpus": "numbering",
    "select_gpus": "choices.selection",
    "find_device_nodes": "driver.device_nodes",
    "Gpu": "gpu",
    "GpuLocation": "gpu",
    "UnnumberedGpu": "gpu",
    "PciAddress": "gpu",
    "DeviceNumber": "gpu",
    "DeviceNode": "gpu",
    "ToolkitError": "errors",
    "DriverUnavailable": "errors",
    "DeviceNodeError": "errors",
    "GpusHidden": "errors",
    "FileError": "errors",
    "RequestError": "errors",
}
__all__ = list(_MODULE_BY_NAME)
# Names that another distribution has now.
_MOVED = dict.fromkeys(("build_host", "load_profile", "profile_names"), "amdgpu_simulator")


def lazy_exports(
    package: str, module_by_name: Mapping[str, str], moved: Mapping[str, str] = {}
) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that offers names of its modules, and its version as `__version__`.

    The other distributions use it, too. It imports a module when one of its names is first used, because every
    container start imports the packages but needs hardly any of their names. For a name that `moved` to another
    package, it raises an ImportError that says where it is.
    """

    def find(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version(package.replace("_", "-"))
        if name in moved:
            raise ImportError(f"{name} is in {moved[name]} now: from {moved[name]} import {name}")
        if name not in module_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = f"{package}.{module_by_name[name]}"
        __import__(module)
        return getattr(sys.modules[module], name)

    return find


__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME, _MOVED)
