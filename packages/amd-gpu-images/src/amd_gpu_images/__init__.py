"""Tells which GPUs an image runs on, and finds the image that fits a host.

    from amd_gpu_images import read_targets

    read_targets("oci:images", deep=False)

The names on this page stay the same from one version to the next. The modules behind them may change.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_images.bounds import ImageError as ImageError
    from amd_gpu_images.proxy.upstreams import Upstream as Upstream
    from amd_gpu_images.proxy.upstreams import UpstreamError as UpstreamError
    from amd_gpu_images.proxy.upstreams import read_upstreams as read_upstreams
    from amd_gpu_images.targets import read_targets as read_targets

_MODULE_BY_NAME = {
    "read_targets": "targets",
    "read_upstreams": "proxy.upstreams",
    "Upstream": "proxy.upstreams",
    "UpstreamError": "proxy.upstreams",
    "ImageError": "bounds",
}
__all__ = list(_MODULE_BY_NAME)

__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME)
