"""Run the programs that read registries, because only they have the user's credentials, certificates and mirrors."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from typing import Any

from amd_gpu_images.bounds import ImageError
from amd_gpu_images.content.configuration import parse_document
from amd_gpu_images.registries.registry_name import REFUSED_BY_PROXY, RegistryName, digest_of
from amdgpu_discovery.command_line.programs import Answer, ask, parse_version
from amdgpu_discovery.untrusted.plain_text import one_line
from amdgpu_discovery.value import Value

# Limits for one command about images: seconds, and questions to a registry. No real index has that many images.
REGISTRY_SECONDS = 120.0
MOST_QUESTIONS = 300
NAME = "{name}"
# The proxy does not choose an image for a name with a digest.
NAME_THE_INDEX = "name the index by the digest that 'amd-ctk image index' printed"
INSTALL = "install skopeo, or Docker with buildx, or Podman 5"
HAS_BUILDX = ("docker", "buildx", "version")
HAS_VERSION = ("podman", "version")
# Podman and skopeo mark warnings with the first, Docker begins them with the second.
WARNING, DOCKER_WARNING = "level=warning", "WARNING:"
# Podman 4 converts every index to this type, which has no annotations.
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
# Messages of the libraries of these programs; registries use their own words for the same codes.
OFFLINE = ("dial tcp", "no such host", "i/o timeout", "unreachable", "connection refused", "connection reset")
LOGGED_OUT = ("unauthorized", "authentication required", "no basic auth credentials", "denied", "forbidden")
MISSING = ("manifest unknown", "name unknown", "not found", "no such manifest", "status code 404", "statuscode: 404")
# Matches a URL or an image's name, which may contain any of these words, but not "i/o timeout".
WITH_SLASH = re.compile(r"(?<!\S)(?!i/o\b)\S*/\S*")
# skopeo writes this before its message, and escapes quotes in the message.
PREFIX_OF_SKOPEO = re.compile(r'time="[^"]*" level=\w+ msg="(.*)"')


class Program(Value):
    """The commands with which a program prints an image's manifest and, if it can, its configuration."""

    name: str
    manifest: tuple[str, ...]
    configuration: tuple[str, ...] = ()
    # Whether it prints a manifest byte for byte as the registry has it.
    is_exact: bool = True


SKOPEO = Program(
    name="skopeo",
    manifest=("skopeo", "inspect", "--raw", f"docker://{NAME}"),
    configuration=("skopeo", "inspect", "--config", "--raw", f"docker://{NAME}"),
)
BUILDX = Program(
    name="docker buildx",
    manifest=("docker", "buildx", "imagetools", "inspect", "--raw", NAME),
    configuration=("docker", "buildx", "imagetools", "inspect", "--format", "{{json .Image}}", NAME),
)
PODMAN = Program(name="podman", manifest=("podman", "manifest", "inspect", NAME), is_exact=False)


def find_program() -> Program:
    """Return the program that reads registries on this machine; ImageError if there is none."""
    if shutil.which("skopeo"):
        return SKOPEO
    failed = ""
    if shutil.which("docker"):
        answer = ask(HAS_BUILDX)
        if answer.succeeded:
            return BUILDX
        failed = f", and {_failure(HAS_BUILDX, answer)}"
    if shutil.which("podman"):
        _require_podman_5()
        return PODMAN
    raise ImageError(f"no program here reads registries{failed}", hint=INSTALL)


def _require_podman_5() -> None:
    answer = ask([*HAS_VERSION, "--format", "{{.Client.Version}}"])
    if not answer.succeeded:
        raise ImageError(_failure(HAS_VERSION, answer), hint=f"see '{' '.join(HAS_VERSION)}', or {INSTALL}")
    version = answer.output.strip()
    if parse_version(version) < (5,):
        found = f"Podman {one_line(version)}" if version else "Podman does not say its version; one before 5"
        raise ImageError(f"{found} drops the annotations of an index", hint=INSTALL)


def _failure(argv: Sequence[str], answer: Answer) -> str:
    """Describe the failure of a command by its first line of errors that is not a warning."""
    every = answer.errors.strip().splitlines()
    lines = [line for line in every if WARNING not in line and not line.startswith(DOCKER_WARNING)]
    how = answer.problem or one_line(next(iter(lines), "")) or f"exit code {answer.exit_code}"
    return f"'{' '.join(argv)}' failed: {how}"


class Manifest(Value):
    """A manifest or an index in a registry: its content, and its digest ("" if the program does not show it)."""

    content: dict[str, Any]
    digest: str
    text: str


class Questions:
    """Asks a registry for documents on behalf of one command, within limits of time and number."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._asked = 0
        self._end = time.monotonic() + REGISTRY_SECONDS

    def read_manifest(self, name: RegistryName) -> Manifest:
        """Return a manifest or an index; ImageError."""
        text = self._ask(self.program.manifest, name)
        content = parse_document(text.encode(), str(name))
        if not self.program.is_exact:
            if content.get("mediaType") == DOCKER_LIST:
                raise ImageError(f"podman drops the annotations of {name}", hint="install skopeo")
            return Manifest(content=content, digest=name.digest, text=text)
        digest = digest_of(text.encode())
        if name.digest.startswith("sha256:") and digest != name.digest:
            raise ImageError(f"{name} has another digest in the registry: {digest}")
        return Manifest(content=content, digest=digest, text=text)

    def read_configuration(self, name: RegistryName) -> dict[str, Any]:
        """Return the configuration of an image; {} if the program cannot show it. ImageError."""
        if not self.program.configuration:
            return {}
        return parse_document(self._ask(self.program.configuration, name).encode(), f"the configuration of {name}")

    def _ask(self, argv: tuple[str, ...], name: RegistryName) -> str:
        self._asked += 1
        left = self._end - time.monotonic()
        if self._asked > MOST_QUESTIONS or left <= 0:
            raise ImageError(
                f"reading {name} takes more than {REGISTRY_SECONDS:g} seconds, or {MOST_QUESTIONS} questions"
            )
        answer = ask([word.replace(NAME, str(name)) for word in argv], seconds=left)
        if not answer.succeeded:
            raise refusal(answer, name, self.program)
        return answer.output


def refusal(answer: Answer, name: RegistryName, program: Program, *, failed: str = "read") -> ImageError:
    """Return the error for a program that failed to read an image, or to do what `failed` names."""
    if answer.problem:
        return ImageError(f"{name} cannot be {failed}: {answer.problem}")
    line = last_line(answer.errors)
    hint = f"{program.name}: {line or f'exit code {answer.exit_code}'}"
    kind = _without_names(line, name).lower()
    if failed == "read" and REFUSED_BY_PROXY in line:
        return ImageError(f"the image proxy of this host refuses {name}", hint=f"{NAME_THE_INDEX}; {hint}")
    if any(word in kind for word in OFFLINE):
        return ImageError(f"the registry of {name} cannot be reached", hint=hint)
    if any(word in kind for word in LOGGED_OUT):
        sentence = f"{name} does not exist, or you are not logged in to its registry"
        return ImageError(sentence, hint=f"{program.manifest[0]} login {name.registry}; {hint}")
    if failed == "read" and any(word in kind for word in MISSING):
        return ImageError(f"there is no image {name}", hint=hint)
    return ImageError(f"{name} cannot be {failed}", hint=hint)


def _without_names(line: str, name: RegistryName) -> str:
    """Remove words that may be the image's name, or a part of it, from a message."""
    text = WITH_SLASH.sub("", line)
    for part in (str(name), name.digest, name.registry, f"manifest {name.tag} in", f"{name.repository}:"):
        text = text.replace(part, "") if part else text
    return text


def last_line(errors: str) -> str:
    """Return the last line that a program printed, without skopeo's frame around it."""
    line = (errors.strip().splitlines() or [""])[-1]
    match = PREFIX_OF_SKOPEO.fullmatch(line)
    return one_line(match.group(1).replace('\\"', '"') if match else line)
