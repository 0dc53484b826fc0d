"""Errors of the commands about images."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError


class ImageError(ToolkitError):
    """An image that cannot be read, or a reference, template or list of tags that means nothing."""

    exit_code = 2
