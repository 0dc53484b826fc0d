"""Join images in a registry under one name: an OCI index whose annotations describe each image."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

from amd_gpu_images.archives.oci_layout import INDEX
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.check import REQUIRE_ANNOTATION, TARGETS_ANNOTATION, declared_targets, is_short, requirements_of
from amd_gpu_images.content.contents import Image, targets_of
from amd_gpu_images.registries.registry import Found, find_one, read_with_layers
from amd_gpu_images.registries.registry_name import RegistryName, digest_of, parse_registry_name
from amd_gpu_images.registries.registry_programs import SKOPEO, Questions, refusal
from amd_gpu_images.registries.transfer import run_until_stalled
from amdgpu_discovery.choices.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.requirements.facts import RequirementError
from amdgpu_discovery.requirements.grammar import MOST_CHARACTERS, parse_requirement
from amdgpu_discovery.untrusted.plain_text import one_line
from amdgpu_discovery.value import Value

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TAG = "index"
# Name of a requirement behind its prefix. These characters survive the lower case of an annotation and the way back.
REQUIREMENT = re.compile(r"[A-Z0-9_]+")
# Message of skopeo before 1.6.
UNKNOWN_OPTION = "unknown flag: --preserve-digests"


class Entry(Value):
    """One image of an index: the image in its registry, and its descriptor in the index."""

    found: Found
    descriptor: dict[str, Any]

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations of the image in the index."""
        annotations: dict[str, str] = self.descriptor["annotations"]
        return annotations


def parse_index_name(text: str) -> RegistryName:
    """Parse the name for a new index; ImageError."""
    name = parse_registry_name(text)
    if name.digest:
        raise ImageError(f"{name} names what is there already", hint="give the index a tag, as in registry/app:1.0")
    return name


def read_entries(texts: Sequence[str], reading: Reading) -> list[Entry]:
    """Return the index entries for these images; ImageError if an image does not state what it is for."""
    if not shutil.which("skopeo"):
        raise ImageError("only skopeo writes an index, and it is not installed", hint="install skopeo")
    return [_read_entry(Questions(SKOPEO), text, reading) for text in texts]


def write_index(name: RegistryName, entries: Sequence[Entry]) -> RegistryName:
    """Write an index under this name, and return its name by digest; ImageError.

    Images from other repositories are copied to the repository of the index first, because registries require it.
    """
    for entry in entries:
        if entry.found.name.repository != name.repository:
            print_note(f"copying {entry.found.name} to {name.repository}")
            _copy(f"docker://{entry.found.name}", name.at(entry.found.name.digest))
    manifests = [entry.descriptor for entry in entries]
    content = json.dumps({"schemaVersion": 2, "mediaType": INDEX[0], "manifests": manifests}).encode()
    with TemporaryDirectory() as directory:
        _write_layout(directory, content)
        _copy(f"oci:{directory}:{TAG}", name, "--multi-arch=index-only")
    return name.at(digest_of(content))


def annotations_for(image: Image) -> dict[str, str]:
    """Return the annotations that describe an image: its targets, and one for each requirement."""
    targets = targets_of(image.layers) or declared_targets(image)
    requirements = {
        f"{REQUIRE_ANNOTATION}{name.removeprefix(REQUIREMENT_PREFIX).lower()}": value
        for name, value in requirements_of(image).items()
        if name.startswith(REQUIREMENT_PREFIX)
    }
    return {**({TARGETS_ANNOTATION: " ".join(targets)} if targets else {}), **requirements}


def _read_entry(questions: Questions, text: str, reading: Reading) -> Entry:
    found = find_one(questions, text)
    if reading.deep or not annotations_for(found.image):
        found = found.replace(image=read_with_layers(questions, found, reading))
    annotations = annotations_for(found.image)
    if not annotations:
        hint = "build it with ENV AMD_REQUIRE_GFX=gfx=..., or look into its programs with --deep"
        raise ImageError(f"{text} does not say what it is for, and no file name names a target", hint=hint)
    _require_bounds(text, found.image, annotations)
    _require_meaning(text, annotations)
    descriptor = {
        # OCI manifests may lack the media type, Docker's may not.
        "mediaType": found.manifest.content.get("mediaType", MANIFEST),
        "digest": found.manifest.digest,
        "size": len(found.manifest.text.encode()),
        "platform": found.platform,
        "annotations": annotations,
    }
    return Entry(found=found, descriptor=descriptor)


def _require_bounds(text: str, image: Image, annotations: dict[str, str]) -> None:
    """Refuse what `pick` could not judge; ImageError."""
    requirements = requirements_of(image)
    if not is_short([*requirements.values(), annotations.get(TARGETS_ANNOTATION, "")]):
        sentence = f"{text} cannot be in an index: what it is for takes more than {MOST_CHARACTERS} characters"
        raise ImageError(sentence, hint="leave out targets and requirements that it can do without")
    for variable in requirements:
        name = variable.removeprefix(REQUIREMENT_PREFIX)
        if name != variable and not REQUIREMENT.fullmatch(name):
            sentence = f"{text} cannot be in an index: {one_line(variable)} is not the name of a requirement"
            raise ImageError(sentence, hint=f"write {REQUIREMENT_PREFIX} and then A-Z, 0-9 and _")


def _require_meaning(text: str, annotations: dict[str, str]) -> None:
    for name, value in annotations.items():
        try:
            parse_requirement(value if name.startswith(REQUIRE_ANNOTATION) else "")
        except RequirementError as error:
            raise ImageError(f"{text} cannot be in an index: {name}={value}: {error.message}") from error


def _write_layout(directory: str, index: bytes) -> None:
    """Write a layout that contains only the index, because its images are in the registry."""
    digest = digest_of(index)
    os.makedirs(f"{directory}/blobs/sha256")
    names = {"org.opencontainers.image.ref.name": TAG}
    top = {"mediaType": INDEX[0], "digest": digest, "size": len(index), "annotations": names}
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [top]}).encode(),
        f"blobs/{digest.replace(':', '/')}": index,
    }
    for path, content in files.items():
        with open(f"{directory}/{path}", "wb") as file:
            file.write(content)


def _copy(source: str, name: RegistryName, *options: str) -> None:
    words = ["skopeo", "copy", "--quiet", "--preserve-digests", *options, source, f"docker://{name}"]
    answer = run_until_stalled(words)
    if UNKNOWN_OPTION in answer.errors:
        raise ImageError("this skopeo writes no index", hint="it needs skopeo 1.6 or later")
    if not answer.succeeded:
        raise refusal(answer, name, SKOPEO, failed="written")
