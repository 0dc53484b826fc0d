"""How images are named on the command line, and opening what such a name stands for."""

from __future__ import annotations

from amd_ctk.image.bounds import ImageError, Progress
from amd_ctk.image.contents import Image
from amd_ctk.image.directory import read_directory
from amd_ctk.image.docker_archive import read_archive_file, read_saved
from amd_ctk.image.oci_layout import read_oci_layout
from amdgpu_discovery.value import Value

FORMS = "oci:DIR[:TAG], docker-archive:FILE, dir:PATH, docker:NAME or podman:NAME"


class Reference(Value):
    """The name of an image: how it is kept, and where."""

    transport: str
    name: str

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.transport}:{self.name}"


def parse_reference(text: str) -> Reference:
    """Read the name of an image; ImageError."""
    transport, _, name = text.partition(":")
    if transport not in ("oci", "docker-archive", "dir", "docker", "podman") or not name:
        raise ImageError(f"{text} does not name an image", hint=f"write {FORMS}")
    return Reference(transport=transport, name=name)


def read_image(reference: Reference, progress: Progress, *, deep: bool = False, with_layers: bool = True) -> Image:
    """Return what is known of an image, without its layers where they are not asked for. ImageError."""
    if reference.transport == "oci":
        return read_oci_layout(reference.name, progress, deep=deep, with_layers=with_layers)
    if reference.transport == "dir":
        return Image(layers=(read_directory(reference.name, progress, deep=deep),))
    if reference.transport == "docker-archive":
        return read_archive_file(reference.name, progress, deep=deep)
    return read_saved(reference.transport, reference.name, progress, deep=deep)
