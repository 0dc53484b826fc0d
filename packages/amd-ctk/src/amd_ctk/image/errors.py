"""Errors of the commands about images."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class ImageError(ToolkitError):
    """An image that cannot be read or judged on this host, or a reference, template or list of tags without meaning."""

    exit_code = 2
