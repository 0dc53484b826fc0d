"""The GPU targets of an image, by its code or by what it says of itself."""

from __future__ import annotations

from amd_gpu_images.bounds import Reading
from amd_gpu_images.check import declared_targets
from amd_gpu_images.content.contents import targets_of
from amd_gpu_images.reference import find_image, parse_reference, read_image


def read_targets(image: str, *, deep: bool) -> list[str]:
    """Return the targets that an `image` has code for, or else declares; `deep` looks into programs. ImageError."""
    with Reading(deep=deep) as reading:
        found = read_image(find_image(parse_reference(image)), reading)
    return list(targets_of(found.layers) or declared_targets(found))
