"""The programs that read registries: they have people's credentials, certificates and mirrors, so nothing here has."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from typing import Any

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.configuration import parse_document
from amd_ctk.image.registry_name import REFUSED_BY_PROXY, RegistryName, digest_of
from amd_ctk.programs import Answer, ask, parse_version
from amdgpu_discovery.plain_text import one_line
from amdgpu_discovery.value import Value

# Of one command about images, in seconds and in answers; an index of as many images as that has no reader.
PATIENCE = 120.0
MOST_QUESTIONS = 300
NAME = "{name}"
# Of a digest the proxy chooses nothing.
NAME_THE_INDEX = "name the index by the digest that 'amd-ctk image index' printed"
INSTALL = "install skopeo, or Docker with buildx, or Podman 5"
HAS_BUILDX = ("docker", "buildx", "version")
HAS_VERSION = ("podman", "version")
# How Podman and skopeo mark a warning, and how Docker begins one.
WARNING, DOCKER_WARNING = "level=warning", "WARNING:"
# Podman 4 converts every index to this kind, which has no annotations.
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
# What the libraries of these programs print; registries have their own words for the same codes.
OFFLINE = ("dial tcp", "no such host", "i/o timeout", "unreachable", "connection refused", "connection reset")
LOGGED_OUT = ("unauthorized", "authentication required", "no basic auth credentials", "denied", "forbidden")
MISSING = ("manifest unknown", "name unknown", "not found", "no such manifest", "status code 404", "statuscode: 404")
# A URL or the name of an image, which may have any of these words in it; but not "i/o timeout".
WITH_SLASH = re.compile(r"(?<!\S)(?!i/o\b)\S*/\S*")
# Before the message of skopeo, which escapes quotes in it.
PREFIX_OF_SKOPEO = re.compile(r'time="[^"]*" level=\w+ msg="(.*)"')


class Program(Value):
    """A program that prints the manifest of an image in a registry, and its configuration where it can."""

    name: str
    manifest: tuple[str, ...]
    configuration: tuple[str, ...] = ()
    # Whether it prints a manifest as the registry has it, byte by byte.
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
    """Return the program that reads registries here; ImageError if there is none."""
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


def _failure(words: Sequence[str], answer: Answer) -> str:
    """Return that a command failed, and how: its first line of errors, which may stand behind warnings."""
    every = answer.errors.strip().splitlines()
    lines = [line for line in every if WARNING not in line and not line.startswith(DOCKER_WARNING)]
    how = answer.problem or one_line(next(iter(lines), "")) or f"exit code {answer.exit_code}"
    return f"'{' '.join(words)}' failed: {how}"


class Manifest(Value):
    """A manifest or an index as a registry has it: its content, and its digest ("" where that is not shown)."""

    content: dict[str, Any]
    digest: str
    text: str


class Questions:
    """What one command asks a registry, in bounded time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._asked = 0
        self._end = time.monotonic() + PATIENCE

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
        """Return the configuration of an image, {} where the program does not show it; ImageError."""
        if not self.program.configuration:
            return {}
        return parse_document(self._ask(self.program.configuration, name).encode(), f"the configuration of {name}")

    def _ask(self, words: tuple[str, ...], name: RegistryName) -> str:
        self._asked += 1
        left = self._end - time.monotonic()
        if self._asked > MOST_QUESTIONS or left <= 0:
            raise ImageError(f"reading {name} takes more than {PATIENCE:g} seconds, or {MOST_QUESTIONS} questions")
        answer = ask([word.replace(NAME, str(name)) for word in words], seconds=left)
        if not answer.succeeded:
            raise refusal(answer, name, self.program)
        return answer.output


def refusal(answer: Answer, name: RegistryName, program: Program, *, failed: str = "read") -> ImageError:
    """Return the error for a program that could not read an image, or what else `failed`."""
    if answer.problem:
        return ImageError(f"{name} cannot be {failed}: {answer.problem}")
    words = last_words(answer.errors)
    hint = f"{program.name}: {words or f'exit code {answer.exit_code}'}"
    kind = _without_names(words, name).lower()
    if failed == "read" and REFUSED_BY_PROXY in words:
        return ImageError(f"the image proxy of this host refuses {name}", hint=f"{NAME_THE_INDEX}; {hint}")
    if any(word in kind for word in OFFLINE):
        return ImageError(f"the registry of {name} cannot be reached", hint=hint)
    if any(word in kind for word in LOGGED_OUT):
        sentence = f"{name} does not exist, or you are not logged in to its registry"
        return ImageError(sentence, hint=f"{program.manifest[0]} login {name.registry}; {hint}")
    if failed == "read" and any(word in kind for word in MISSING):
        return ImageError(f"there is no image {name}", hint=hint)
    return ImageError(f"{name} cannot be {failed}", hint=hint)


def _without_names(words: str, name: RegistryName) -> str:
    """Return a message without what may be the name of an image, its parts among them."""
    text = WITH_SLASH.sub("", words)
    for part in (str(name), name.digest, name.registry, f"manifest {name.tag} in", f"{name.repository}:"):
        text = text.replace(part, "") if part else text
    return text


def last_words(errors: str) -> str:
    """Return the last line that a program printed, without what skopeo writes around it."""
    line = (errors.strip().splitlines() or [""])[-1]
    match = PREFIX_OF_SKOPEO.fullmatch(line)
    return one_line(match.group(1).replace('\\"', '"') if match else line)
