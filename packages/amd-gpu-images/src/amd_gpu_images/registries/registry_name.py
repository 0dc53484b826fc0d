"""Parse names of images in registries as engines do: [REGISTRY/]REPOSITORY[:TAG][@DIGEST]."""

from __future__ import annotations

import re

from amd_gpu_images.bounds import ImageError
from amdgpu_discovery.value import Value

# From distribution/reference, "Grammar". The first part is a registry if it has a "." or ":", or is localhost.
PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
NAME = re.compile(
    r"(?P<repository>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?" + rf"{PART}(?:/{PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
# A user and password in front of a registry. No program accepts them in a name.
LOGIN = re.compile(r"^(?:\w+://)?[^@]*:.*@(?!sha\d+:)")
LONGEST_REGISTRY_NAME = 512
DOCKER_HUB = "docker.io"
# The image proxy begins a refusal with this, where a registry's message would be.
REFUSED_BY_PROXY = "no image for this host: "


class RegistryName(Value):
    """An image in a registry: its repository as the user wrote it, and its tag or digest ("" for none)."""

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """Return the name for other programs. skopeo refuses a tag beside a digest, and the digest decides anyway."""
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag}" if self.tag else self.repository

    @property
    def registry(self) -> str:
        """Return the registry; Docker Hub if the name has none."""
        first, slash, _ = self.repository.partition("/")
        return first if slash and (first == "localhost" or set(first) & set(".:")) else DOCKER_HUB

    def at(self, digest: str) -> RegistryName:
        """Return the name of the image with this digest in the same repository."""
        return RegistryName(repository=self.repository, digest=digest)


def is_registry_name(text: str) -> bool:
    """Return whether a text has the form of a name in a registry."""
    return len(text) <= LONGEST_REGISTRY_NAME and NAME.fullmatch(text) is not None


def parse_registry_name(text: str) -> RegistryName:
    """Parse the name of an image in a registry; ImageError."""
    match = NAME.fullmatch(text) if len(text) <= LONGEST_REGISTRY_NAME else None
    if match is None:
        hint = "write [REGISTRY/]REPOSITORY[:TAG] or [REGISTRY/]REPOSITORY@sha256:..."
        raise ImageError(
            f"{without_login(text)[:LONGEST_REGISTRY_NAME]} does not name an image in a registry", hint=hint
        )
    return RegistryName(repository=match["repository"], tag=match["tag"] or "", digest=match["digest"] or "")


def without_login(text: str) -> str:
    """Return a name without the password in it, for messages."""
    return LOGIN.sub("...@", text)


def digest_of(content: bytes) -> str:
    """Return the digest by which registries identify a document."""
    # It loads OpenSSL: 3 ms and 3 MB, which an image in a directory does not need.
    import hashlib

    return f"sha256:{hashlib.sha256(content).hexdigest()}"
