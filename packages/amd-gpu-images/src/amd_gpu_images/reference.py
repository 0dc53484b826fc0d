"""Parse names of images from the command line, and read the images that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amd_gpu_images.bounds import STEP, Counter, ImageError, Reading
from amd_gpu_images.content.contents import Image, LayerContents
from amd_gpu_images.content.deep import ELF, Programs
from amd_gpu_images.registries.registry_name import is_registry_name, parse_registry_name, without_login
from amd_gpu_images.sources import pieces_of
from amdgpu_discovery.command_line.programs import ask, is_podman_set_up
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import reason
from amdgpu_discovery.value import Value

FORMS = "NAME, docker://NAME, docker:NAME, podman:NAME, oci:DIR[:TAG], docker-archive:FILE or dir:PATH"
TRANSPORTS = ("oci", "docker-archive", "dir", "docker", "podman")
ENGINES = ("docker", "podman")
# An image in a registry.
REGISTRY = "docker://"
# An engine may have to start first.
IMAGE_ANSWER_SECONDS = 10.0
# Of Docker 20.10 to 29, to a user outside its group.
REFUSED = "permission denied while trying to connect"
# Messages of Docker, and of Podman 3 to 6, if their store lacks the image.
MISSING = ("no such image", "no such object", "image not known")


class Reference(Value):
    """The name of an image, and where it is stored. `transport` is "" until that is found."""

    transport: str
    name: str

    def __str__(self) -> str:
        """Return the reference as users type it."""
        return f"{self.transport}{'' if self.transport in ('', REGISTRY) else ':'}{self.name}"


def parse_reference(text: str) -> Reference:
    """Parse the name of an image; ImageError."""
    if text.startswith(REGISTRY):
        return Reference(transport=REGISTRY, name=text.removeprefix(REGISTRY))
    transport, _, name = text.partition(":")
    if transport in TRANSPORTS and name:
        return Reference(transport=transport, name=name)
    if transport in TRANSPORTS or not is_registry_name(text):
        raise ImageError(f"{without_login(text)} does not name an image", hint=f"write {FORMS}")
    return Reference(transport="", name=text)


def find_image(reference: Reference) -> Reference:
    """Find an image that is given by name only: in the store of an engine, else in a registry."""
    if reference.transport:
        return reference
    problems = []
    for engine in ENGINES:
        # Asking a Podman that was never used would make it set itself up.
        if engine == "podman" and not is_podman_set_up():
            continue
        has_it, problem = _ask(engine, reference.name)
        if has_it:
            return reference.replace(transport=engine)
        problems += [problem] if problem else []
    for problem in problems:
        print_note(problem)
    registry = parse_registry_name(reference.name).registry
    if not reference.name.startswith(f"{registry}/"):
        print_note(f"reading {reference.name} in the registry {registry}")
    return reference.replace(transport=REGISTRY)


def read_image(reference: Reference, reading: Reading, *, with_layers: bool = True) -> Image:
    """Read an image. Without `with_layers`, layers in OCI layouts and registries are not read. ImageError."""
    # Each place has its reader, which is imported where it is needed: none pays for the libraries of another.
    if reference.transport == "oci":
        from amd_gpu_images.archives.oci_layout import read_oci_layout

        return read_oci_layout(reference.name, reading, with_layers=with_layers)
    if reference.transport == "dir":
        return Image(layers=(_read_directory(reference.name, reading),))
    if reference.transport == "docker-archive":
        from amd_gpu_images.archives.docker_archive import read_archive_file

        return read_archive_file(reference.name, reading)
    if reference.transport == REGISTRY:
        from amd_gpu_images.registries.registry import read_registry_image

        return read_registry_image(reference.name, reading, with_layers=with_layers)
    from amd_gpu_images.registries.transfer import read_saved

    return read_saved(reference.transport, reference.name, reading)


def _ask(engine: str, name: str) -> tuple[bool, str]:
    """Return whether an engine has an image, and why it could not be asked, "" if it could."""
    answer = ask([engine, "image", "inspect", "--format", "{{.Id}}", name], seconds=IMAGE_ANSWER_SECONDS)
    if answer.succeeded or not answer.is_installed:
        return answer.succeeded, ""
    from amd_gpu_images.registries.registry_programs import last_line

    line = answer.problem or last_line(answer.errors) or f"exit code {answer.exit_code}"
    if any(missing in line.lower() for missing in MISSING):
        return False, ""
    return False, f"{engine} could not be asked for {name}: {_shorten(line)}"


def _shorten(line: str) -> str:
    """Return what an engine says without the call that failed, and what to do if Docker refuses its user."""
    said = line.partition(': Get "')[0]
    return said if REFUSED not in said.lower() else f"{said} (run it with sudo, or join the group docker)"


def _read_directory(path: str, reading: Reading) -> LayerContents:
    """Return the targets of the files below a directory. No link is followed. ImageError if it cannot be read."""
    reading.layer = path
    counter = Counter(reading)
    layer = LayerContents()
    programs = Programs()
    names = 0
    for entry in _walk(path):
        names += 1
        if names % STEP == 0:
            counter.count(STEP)
            counter.advance(0)
        if entry.is_file(follow_symlinks=False):
            layer.add(os.path.relpath(entry.path, path), _find_inside(entry.path, programs) if reading.deep else ())
    counter.count(names % STEP)
    return layer


def _walk(path: str) -> Iterator[os.DirEntry[str]]:
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            raise ImageError(f"{directory} cannot be read: {reason(error)}") from error


def _find_inside(path: str, programs: Programs) -> set[str]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            is_program = file.read(len(ELF)) == ELF
            return programs.targets_in(pieces_of(file)) if is_program else set()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {reason(error)}") from error
