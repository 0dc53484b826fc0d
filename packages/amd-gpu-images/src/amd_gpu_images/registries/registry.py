"""Read images in registries: their manifests and configurations, and on request their layers."""

from __future__ import annotations

import shutil
from typing import Any

from amd_gpu_images.archives.oci_layout import INDEX, IndexedImage, Walk, digest_in
from amd_gpu_images.bounds import GIBIBYTE, ImageError, Reading
from amd_gpu_images.content.configuration import describe
from amd_gpu_images.content.contents import Image
from amd_gpu_images.registries.registry_name import RegistryName, parse_registry_name
from amd_gpu_images.registries.registry_programs import SKOPEO, Manifest, Questions, find_program
from amd_gpu_images.registries.transfer import read_printed
from amdgpu_discovery.command_line.json_parts import objects_at, texts_at
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import reason
from amdgpu_discovery.value import Value

# skopeo decompresses each layer here, to know its size before it prints the layer.
SCRATCH = "/var/tmp"  # noqa: S108 - asked for its room alone


class Found(Value):
    """One image in a registry: its name, by digest if that is known, its manifest, and its description."""

    name: RegistryName
    manifest: Manifest
    image: Image
    platform: dict[str, Any]


def read_registry_entries(text: str) -> list[tuple[str, Image]]:
    """Return the images that a name stands for, by the names with which they can be run; ImageError.

    The index describes each image. If it does not, the image's own manifest and configuration do.
    """
    name = parse_registry_name(text)
    questions = Questions(find_program())
    found = _read(questions, name)
    if isinstance(found, Found):
        return [(str(found.name), found.image)]
    return [
        (entry.reference, entry.image if entry.is_described else _find_entry(questions, name, entry).image)
        for entry in found
    ]


def read_registry_image(text: str, reading: Reading, *, with_layers: bool) -> Image:
    """Return an image; skopeo streams its layers. An index must have exactly one image for amd64. ImageError."""
    questions = Questions(find_program())
    found = find_one(questions, text)
    return read_with_layers(questions, found, reading) if with_layers else found.image


def find_one(questions: Questions, text: str) -> Found:
    """Return the image that a name stands for; an index must have exactly one image for amd64. ImageError."""
    name = parse_registry_name(text)
    found = _read(questions, name)
    return found if isinstance(found, Found) else _find_entry(questions, name, _only(found, text))


def read_with_layers(questions: Questions, found: Found, reading: Reading) -> Image:
    """Download the layers of an image and return it with them; ImageError."""
    if questions.program is not SKOPEO:
        engine = questions.program.manifest[0]
        hint = f"install it, or '{engine} pull {found.name}' and name {engine}:{found.name}"
        raise ImageError("only skopeo reads layers in a registry", hint=hint)
    room = _find_room() // 2
    print_note(f"reading the layers of {found.name}: {_size_of(found.manifest.content) / GIBIBYTE:.1f} GiB")
    words = ["skopeo", "copy", "--quiet", f"docker://{found.name}", "docker-archive:/dev/stdout"]
    read = read_printed(words, f"docker://{found.name}", reading, largest_file=room)
    return found.image.replace(layers=read.layers)


def _find_room() -> int:
    try:
        return shutil.disk_usage(SCRATCH).free
    except OSError as error:
        problem = f"skopeo cannot unpack layers in {SCRATCH}: {reason(error)}"
        raise ImageError(problem, hint=f"make it with: sudo install -d -m 1777 {SCRATCH}") from error


def _read(questions: Questions, name: RegistryName) -> Found | list[IndexedImage]:
    """Return the image, or the images of the index, that a name stands for; ImageError."""
    manifest = questions.read_manifest(name)
    if manifest.content.get("mediaType") in INDEX or "manifests" in manifest.content:
        return _entries(questions, name, manifest)
    return _find(questions, name.at(manifest.digest) if manifest.digest else name, manifest, {})


def _entries(questions: Questions, name: RegistryName, index: Manifest) -> list[IndexedImage]:
    """Return the images of an index and of nested indexes, by repository and digest; ImageError."""

    def read(descriptor: dict[str, Any]) -> dict[str, Any]:
        if descriptor is whole:
            return index.content
        return questions.read_manifest(name.at(_digest_in(descriptor))).content

    whole = {"mediaType": INDEX[0], "digest": index.digest}
    entries = Walk(read).entries({"manifests": [whole]}, name.repository)
    for entry in entries:
        _digest_in(entry.descriptor)
    return entries


def _digest_in(descriptor: dict[str, Any]) -> str:
    digest = digest_in(descriptor)
    if not digest:
        raise ImageError("an entry of the index has no sha256 or sha512 digest")
    return digest


def _find_entry(questions: Questions, name: RegistryName, entry: IndexedImage) -> Found:
    at = name.at(_digest_in(entry.descriptor))
    return _find(questions, at, questions.read_manifest(at), entry.descriptor)


def _find(questions: Questions, name: RegistryName, manifest: Manifest, descriptor: dict[str, Any]) -> Found:
    configuration = questions.read_configuration(name)
    keys = ("architecture", "os", "variant")
    return Found(
        name=name,
        manifest=manifest,
        image=describe(descriptor, manifest.content, configuration),
        platform=texts_at(descriptor, "platform")
        or {key: value for key in keys if isinstance(value := configuration.get(key), str)},
    )


def _only(entries: list[IndexedImage], text: str) -> IndexedImage:
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise ImageError(f"{text} has no image for amd64")
    hint = f"'amd-ctk image pick {text}' names the one that fits by its digest"
    raise ImageError(f"{text} has {len(entries)} images", hint=hint)


def _size_of(manifest: dict[str, Any]) -> int:
    sizes = [layer.get("size") for layer in objects_at(manifest, "layers")]
    return sum(size for size in sizes if isinstance(size, int) and size > 0)
