"""Images in registries: what they say about themselves, and the code in their layers where that is asked for."""

from __future__ import annotations

from typing import Any

from amd_ctk.image.bounds import GIBIBYTE, ImageError, Progress
from amd_ctk.image.configuration import environment_of, labels_of, objects_in, texts_in
from amd_ctk.image.contents import Image
from amd_ctk.image.docker_archive import read_printed
from amd_ctk.image.oci_layout import DIGEST, INDEX, Entry, Walk, cpu_of
from amd_ctk.image.registry_name import RegistryName, parse_registry_name
from amd_ctk.image.registry_programs import SKOPEO, Questions, find_program
from amd_ctk.stderr import say

# What annotations of ours begin with.
OURS = "com.amd.gpu."


def read_registry_entries(text: str) -> list[tuple[str, Image]]:
    """Return the images that a name stands for, by the names to run them by; ImageError.

    What an image is for is said by the index; where that says nothing, by its manifest and configuration.
    """
    name = parse_registry_name(text)
    questions = Questions(find_program())
    document, digest = questions.read_manifest(name)
    if not _is_index(document):
        whole = name.at(digest) if digest else name
        return [(str(whole), _described(questions, whole, document, {}))]
    return [
        (entry.reference, _of_entry(questions, name, entry.descriptor))
        for entry in _entries(questions, name, document, digest)
    ]


def read_registry_image(text: str, progress: Progress, *, deep: bool, with_layers: bool) -> Image:
    """Return an image, of whose layers skopeo makes a stream; an index must have one for amd64. ImageError."""
    name = parse_registry_name(text)
    questions = Questions(find_program())
    document, digest = questions.read_manifest(name)
    name, descriptor = (name.at(digest) if digest else name), {}
    if _is_index(document):
        descriptor = _only(_entries(questions, name, document, digest), text)
        name = name.at(str(descriptor["digest"]))
        document, _ = questions.read_manifest(name)
    image = _described(questions, name, document, descriptor)
    if not with_layers:
        return image
    say(f"reading the layers of {name}: {_size_of(document) / GIBIBYTE:.1f} GiB")
    return image.replace(layers=_read_layers(questions, name, progress, deep=deep).layers)


def _is_index(document: dict[str, Any]) -> bool:
    return document.get("mediaType") in INDEX or "manifests" in document


def _entries(questions: Questions, name: RegistryName, document: dict[str, Any], digest: str) -> list[Entry]:
    """Return the images of an index, and of those in it, by repository and digest; ImageError."""

    def read(descriptor: dict[str, Any]) -> dict[str, Any]:
        if descriptor is whole:
            return document
        return questions.read_manifest(name.at(_digest_in(descriptor)))[0]

    whole = {"mediaType": INDEX[0], "digest": digest}
    entries = Walk(read).entries({"manifests": [whole]}, name.repository)
    for entry in entries:
        _digest_in(entry.descriptor)
    return entries


def _digest_in(descriptor: dict[str, Any]) -> str:
    digest = descriptor.get("digest")
    # It becomes a part of a name, so it is nothing but this.
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ImageError("an entry of the index has no sha256 or sha512 digest")
    return digest


def _of_entry(questions: Questions, name: RegistryName, descriptor: dict[str, Any]) -> Image:
    annotations = texts_in(descriptor, "annotations")
    if any(key.startswith(OURS) for key in annotations):
        return Image(layers=(), annotations=annotations, cpu=cpu_of(descriptor))
    at = name.at(_digest_in(descriptor))
    return _described(questions, at, questions.read_manifest(at)[0], descriptor)


def _described(questions: Questions, name: RegistryName, manifest: dict[str, Any], descriptor: dict[str, Any]) -> Image:
    configuration = questions.read_configuration(name)
    return Image(
        layers=(),
        environment=environment_of(configuration),
        labels=labels_of(configuration),
        annotations={**texts_in(manifest, "annotations"), **texts_in(descriptor, "annotations")},
        cpu=cpu_of(descriptor),
    )


def _only(entries: list[Entry], text: str) -> dict[str, Any]:
    if len(entries) == 1:
        return entries[0].descriptor
    if not entries:
        raise ImageError(f"{text} has no image for amd64")
    hint = f"'amd-ctk image pick {text}' names the one that fits by its digest"
    raise ImageError(f"{text} has {len(entries)} images", hint=hint)


def _size_of(manifest: dict[str, Any]) -> int:
    sizes = [layer.get("size") for layer in objects_in(manifest, "layers")]
    return sum(size for size in sizes if isinstance(size, int))


def _read_layers(questions: Questions, name: RegistryName, progress: Progress, *, deep: bool) -> Image:
    if questions.program is not SKOPEO:
        engine = questions.program.name.partition(" ")[0]
        hint = f"install it, or '{engine} pull {name}' and name {engine}:{name}"
        raise ImageError("only skopeo reads layers in a registry", hint=hint)
    words = ["skopeo", "copy", "--quiet", f"docker://{name}", "docker-archive:/dev/stdout"]
    return read_printed(words, f"docker://{name}", progress, deep=deep)
